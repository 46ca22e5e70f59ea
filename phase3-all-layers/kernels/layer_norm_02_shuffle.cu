// LayerNorm with a row in the registers of a warp, or of a block if it is longer: one read, and both passes over
// registers.
//
//     x ──one read──▶ 16 values per thread ──shuffles──▶ mean ──shuffles──▶ variance ──▶ y
//
// A warp holds 512 values, a block 4096. Rows that are longer still are read again for each pass.
//
// Limited by memory: 8 bytes per value. What remains is to fuse it with the preceding or the following layer.
// run: test sequence // trial: layer_norm
#include "rows.cuh"
constexpr unsigned HELD = 16;  // values per thread

// One pass over a row: use(column, index in `held`) for this thread's values, WIDTH at a time; they are read first if
// `read`.
// ANCHOR: pass
template <unsigned GROUP, unsigned WIDTH, typename Use>
__device__ void pass(const float *row, unsigned columns, float (&held)[HELD], bool read, Use use) {
    for (unsigned first = 0; first < columns; first += GROUP * HELD) {
        unsigned begin = first + place_in_group<GROUP>() * WIDTH;
        if (read) {
            // All loads before the first use, so that the misses overlap.
#pragma unroll
            for (unsigned j = 0; j < HELD; j += WIDTH) {
                if (begin + j * GROUP < columns) {
                    load<WIDTH>(&held[j], row + begin + j * GROUP);
                }
            }
        }
#pragma unroll
        for (unsigned j = 0; j < HELD; j += WIDTH) {
            if (begin + j * GROUP < columns) {
                use(begin + j * GROUP, j);
            }
        }
    }
}
// ANCHOR_END: pass

// x, y: [rows, columns], weight, bias: [columns]
// ANCHOR: kernel
template <unsigned GROUP, unsigned WIDTH>
__device__ void normalise(const float *x, const float *weight, const float *bias, float *y, unsigned rows,
                          unsigned columns, float eps) {
    unsigned row = row_of_group<GROUP>();
    if (row >= rows) {
        return;  // all threads of the row
    }
    const float *from = x + (size_t)row * columns;
    float *to = y + (size_t)row * columns;
    float held[HELD];
    bool again = columns > GROUP * HELD;
    float sum = 0.0f;
    pass<GROUP, WIDTH>(from, columns, held, true, [&](unsigned, unsigned j) {
        for (unsigned i = j; i < j + WIDTH; i++) {
            sum += held[i];
        }
    });
    float mean = sum_across<GROUP>(sum) / columns;
    float squares = 0.0f;
    pass<GROUP, WIDTH>(from, columns, held, again, [&](unsigned, unsigned j) {
        for (unsigned i = j; i < j + WIDTH; i++) {
            float distance = held[i] - mean;
            squares += distance * distance;
        }
    });
    float scale = 1.0f / sqrtf(sum_across<GROUP>(squares) / columns + eps);
    pass<GROUP, WIDTH>(from, columns, held, again, [&](unsigned column, unsigned j) {
        float w[WIDTH], b[WIDTH], result[WIDTH];
        load<WIDTH>(w, weight + column);
        load<WIDTH>(b, bias + column);
        for (unsigned i = 0; i < WIDTH; i++) {
            result[i] = (held[j + i] - mean) * scale * w[i] + b[i];
        }
        store<WIDTH>(to + column, result);
    });
}
// ANCHOR_END: kernel

#define LAYER_NORM(name, group, width)                                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        name(const float *__restrict__ x, const float *__restrict__ weight, const float *__restrict__ bias,            \
             float *__restrict__ y, unsigned rows, unsigned columns, float eps) {                                      \
        normalise<group, width>(x, weight, bias, y, rows, columns, eps);                                               \
    }

LAYER_NORM(layer_norm_warp, 32, 4)
LAYER_NORM(layer_norm_warp_any, 32, 1)
LAYER_NORM(layer_norm_block, THREADS, 4)
LAYER_NORM(layer_norm_block_any, THREADS, 1)
