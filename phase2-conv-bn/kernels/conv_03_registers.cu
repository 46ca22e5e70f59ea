// Convolution in registers: a thread makes 8 output channels × 4 pixels of a row, so that an input value serves eight
// multiply-adds and a weight four.
//
//        Q                            thread → (n, y, x): pixels x, x + Q/4, x + 2Q/4, x + 3Q/4 of row y, so that the
//     ┌──┬──┬──┬──┐                   lanes of a warp, neighbours in x, load and store neighbours in memory
//     │▪ │▪ │▪ │▪ │ × 8 channels      block  → 128 threads and the same 8 output channels: their weights, 64 taps at a
//     └──┴──┴──┴──┘                   time, go through shared memory, from where all lanes read the same 16 bytes
//
// Limited by instructions: for 32 multiply-adds there are 4 loads of the input, each with its address and its test of the
// edge; and every window that covers a value loads it again.
// run: conv // trial: conv
#include "conv.cuh"
#include "vectors.cuh"

constexpr int CHANNELS = 8, PIXELS = 4;  // of the output, per thread
constexpr int TAPS = 64;                 // whose weights are in shared memory at a time
constexpr int THREADS = 128;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    conv_registers(const float *__restrict__ input, const float *__restrict__ weight, const float *__restrict__ bias,
                   float *__restrict__ output, Conv2d conv) {
    __shared__ __align__(16) float weights[TAPS][CHANNELS];
    // Block → 8 output channels of a group, 128 threads' pixels.
    int quarter = (conv.out_width + PIXELS - 1) / PIXELS;
    int threads = conv.images * conv.out_height * quarter;
    int across = (threads + THREADS - 1) / THREADS;
    int eights = (conv.group_outputs + CHANNELS - 1) / CHANNELS;
    int group = blockIdx.x / across / eights;
    int first_in_group = blockIdx.x / across % eights * CHANNELS;
    int first_k = group * conv.group_outputs + first_in_group;
    int count = min(CHANNELS, conv.group_outputs - first_in_group);

    // Thread → its pixels. One beyond the last still helps to fetch weights.
    int thread = blockIdx.x % across * THREADS + threadIdx.x;
    bool any = thread < threads;
    int x = thread % quarter;
    int y = thread / quarter % conv.out_height;
    int n = any ? thread / quarter / conv.out_height : 0;
    int top = y * conv.stride_y - conv.padding_y;
    unsigned left[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
        bool inside = any && x + p * quarter < conv.out_width;
        left[p] = inside ? (x + p * quarter) * conv.stride_x - conv.padding_x : conv.width;  // no tap lies inside
    }
    const float *plane = input + (n * conv.channels + group * conv.group_channels) * conv.height * conv.width;

    float sums[CHANNELS][PIXELS] = {};
    int r = 0, s = 0;  // of the present tap
    for (unsigned first = 0; first < (unsigned)conv.taps; first += TAPS) {
        int taps = min(TAPS, conv.taps - (int)first);
        for (int at = threadIdx.x; at < TAPS * CHANNELS; at += THREADS) {
            int k = at / TAPS, tap = at % TAPS;
            weights[tap][k] = k < count && tap < taps ? weight[(first_k + k) * conv.taps + first + tap] : 0.0f;
        }
        __syncthreads();  // the weights are complete
        for (int tap = 0; tap < taps; tap++) {
            int row = top + r * conv.dilation_y;
            bool row_inside = (unsigned)row < (unsigned)conv.height;
            float values[PIXELS], w[CHANNELS];
#pragma unroll
            for (int p = 0; p < PIXELS; p++) {
                unsigned column = left[p] + s * conv.dilation_x;
                bool inside = row_inside && column < (unsigned)conv.width;
                values[p] = inside ? plane[row * conv.width + column] : 0.0f;
            }
            read4(w, weights[tap]);
            read4(w + 4, weights[tap] + 4);
#pragma unroll
            for (int k = 0; k < CHANNELS; k++) {
#pragma unroll
                for (int p = 0; p < PIXELS; p++) {
                    sums[k][p] = fmaf(w[k], values[p], sums[k][p]);
                }
            }
            if (++s == conv.window_x) {
                s = 0;
                if (++r == conv.window_y) {
                    r = 0;
                    plane += conv.height * conv.width;
                }
            }
        }
        __syncthreads();  // all threads are done with them
    }

#pragma unroll
    for (int k = 0; k < CHANNELS; k++) {
        if (!any || k >= count) {
            break;
        }
        float *to = output + ((n * conv.out_channels + first_k + k) * conv.out_height + y) * conv.out_width;
#pragma unroll
        for (int p = 0; p < PIXELS; p++) {
            if (x + p * quarter < conv.out_width) {
                to[x + p * quarter] = sums[k][p] + bias_at(bias, first_k + k);
            }
        }
    }
}
// ANCHOR_END: kernel
