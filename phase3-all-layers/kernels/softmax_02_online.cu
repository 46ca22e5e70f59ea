// Softmax with maximum and sum in one pass: when a larger maximum turns up, the sum so far is rescaled to it.
//
//     (max, sum) and x:    max' = max(max, x)    sum' = sum · e^(max − max') + e^(x − max')
//
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.) A warp takes a row, or a block if it is
// long. Each thread has its own maximum and sum, which are merged at the end. Two reads and one write per value.
//
// Limited by memory; if a row fits in a cache, the second read costs little.
// run: test sequence // trial: softmax
#include "rows.cuh"

// x, y: [rows, columns]; y may be x.
// ANCHOR: kernel
template <unsigned GROUP, unsigned WIDTH>
__device__ void softmax(const float *x, float *y, unsigned rows, unsigned columns) {
    const float nothing = __int_as_float(0xff800000);  // −∞, the maximum of no values
    unsigned row = row_of_group<GROUP>();
    if (row >= rows) {
        return;  // all threads of the row
    }
    const float *from = x + (size_t)row * columns;
    float *to = y + (size_t)row * columns;
    float most = nothing, sum = 0.0f, v[WIDTH];
    for (unsigned i = place_in_group<GROUP>() * WIDTH; i < columns; i += GROUP * WIDTH) {
        load<WIDTH>(v, from + i);
        float larger = most;
        for (unsigned j = 0; j < WIDTH; j++) {
            larger = fmaxf(larger, v[j]);  // ignores NaN, but the sum does not
        }
        if (larger > most) {
            sum *= expf(most - larger);  // times 0 if `most` was −∞
            most = larger;
        }
        // While all values so far are −∞, their powers count as 0, not as e^(−∞ − −∞) = NaN: a larger value may follow.
        float origin = most == nothing ? 0.0f : most;
        for (unsigned j = 0; j < WIDTH; j++) {
            sum += expf(v[j] - origin);
        }
    }
    float most_of_row = across<GROUP>(most, [](float a, float b) { return fmaxf(a, b); });
    // A thread that saw only −∞ adds nothing to the sum, unless its sum is NaN.
    sum = sum_across<GROUP>(most == nothing ? sum : sum * expf(most - most_of_row));
    for (unsigned i = place_in_group<GROUP>() * WIDTH; i < columns; i += GROUP * WIDTH) {
        load<WIDTH>(v, from + i);
        for (unsigned j = 0; j < WIDTH; j++) {
            v[j] = expf(v[j] - most_of_row) / sum;
        }
        store<WIDTH>(to + i, v);
    }
}
// ANCHOR_END: kernel

#define SOFTMAX(name, group, width)                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        name(const float *x, float *y, unsigned rows, unsigned columns) {                                              \
        softmax<group, width>(x, y, rows, columns);                                                                    \
    }

SOFTMAX(softmax_warp, 32, 4)
SOFTMAX(softmax_warp_any, 32, 1)
SOFTMAX(softmax_block, THREADS, 4)
SOFTMAX(softmax_block_any, THREADS, 1)
