// Convolution as a product of matrices of which one is never written: a block asks for a value of im2col's matrix when it
// fills its tile in shared memory, and finds out then where in the input it is.
//
//                     pixels (n, p, q)
//                   ┌──────────────────┐     column: the window under one output pixel, zeros in the padding
//     taps (c,r,s)  │  never in memory │     row: one tap of the window, in all places
//                   └──────────────────┘
//         ┌───────┐ ┌──────────────────┐
//       k │weight │ │      output      │     32 output channels × 32 pixels per block, one output per thread
//         └───────┘ └──────────────────┘
//
// Limited by arithmetic on indices: each value fetched takes two divisions to find its tap; then by shared memory, two loads
// for each multiply-add.
// run: conv // trial: conv
#include "conv.cuh"

constexpr int TILE = 32;  // output channels and pixels per block, and taps per step

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(TILE *TILE)
    conv_implicit(const float *input, const float *weight, const float *bias, float *output, Conv2d conv) {
    __shared__ float weights[TILE][TILE];  // [output channel][tap]
    __shared__ float windows[TILE][TILE];  // [tap][pixel]
    int row_tiles = (conv.group_outputs + TILE - 1) / TILE, column_tiles = (conv.pixels + TILE - 1) / TILE;
    int first_row = blockIdx.x % row_tiles * TILE;
    int first_pixel = blockIdx.x / row_tiles % column_tiles * TILE;
    int group = blockIdx.x / row_tiles / column_tiles;
    int x = threadIdx.x % TILE, y = threadIdx.x / TILE;

    // This thread's pixel, and the corner of the window under it.
    int pixel = first_pixel + x;
    int n = pixel / conv.plane, at = pixel % conv.plane;
    int top = at / conv.out_width * conv.stride_y - conv.padding_y;
    int left = at % conv.out_width * conv.stride_x - conv.padding_x;
    const float *images = input + ((size_t)n * conv.channels + group * conv.group_channels) * conv.height * conv.width;
    int window = conv.window_y * conv.window_x;

    float sum = 0.0f;
    for (int first = 0; first < conv.taps; first += TILE) {
        bool in_weight = first_row + y < conv.group_outputs && first + x < conv.taps;
        int channel = group * conv.group_outputs + first_row + y;
        weights[y][x] = in_weight ? weight[(size_t)channel * conv.taps + first + x] : 0.0f;

        int tap = first + y;
        int c = tap / window, r = tap % window / conv.window_x, s = tap % conv.window_x;
        int row = top + r * conv.dilation_y, column = left + s * conv.dilation_x;
        bool in_image = row >= 0 && row < conv.height && column >= 0 && column < conv.width;
        bool in_input = tap < conv.taps && pixel < conv.pixels && in_image;
        windows[y][x] = in_input ? images[((size_t)c * conv.height + row) * conv.width + column] : 0.0f;
        __syncthreads();  // the tiles are complete

        for (int i = 0; i < TILE; i++) {
            sum += weights[y][i] * windows[i][x];
        }
        __syncthreads();  // all threads are done with them
    }

    if (first_row + y < conv.group_outputs && pixel < conv.pixels) {
        int channel = group * conv.group_outputs + first_row + y;
        output[((size_t)n * conv.out_channels + channel) * conv.plane + at] = bias ? sum + bias[channel] : sum;
    }
}
// ANCHOR_END: kernel
