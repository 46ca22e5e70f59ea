// Convolution through shared memory: a block fetches the input values that its 16 × 16 outputs cover once per channel.
//
//     halo: (16 − 1)·stride + (window − 1)·dilation + 1 rows, and columns likewise
//     ┌───────────────┐
//     │ ┌───────────┐ │      a thread makes one output; the values under its window and under its neighbours' windows,
//     │ │  16 × 16  │ │      which are the same but for a row or column, now come from shared memory
//     │ └───────────┘ │
//     └───────────────┘
//
// Limited by instructions: a window whose size is known only at run time needs loops to count and addresses to find. Every
// output channel fetches the halo anew, and two barriers per channel leave a block of 256 threads waiting for memory.
// run: conv // trial: conv
#include "conv.cuh"
constexpr int TILE = 16;  // rows and columns of the output per block

// The halo's size comes from the host, which has asked for that much shared memory.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(TILE *TILE)
    conv_halo(const float *__restrict__ input, const float *__restrict__ weight, const float *__restrict__ bias,
              float *__restrict__ output, Conv2d conv, int halo_height, int halo_width) {
    extern __shared__ float halo[];  // [halo_height][halo_width]
    // Block → tile of the plane, output channel, image.
    int across = (conv.out_width + TILE - 1) / TILE, down = (conv.out_height + TILE - 1) / TILE;
    int first_x = blockIdx.x % across * TILE;
    int first_y = blockIdx.x / across % down * TILE;
    int k = blockIdx.x / across / down % conv.out_channels;
    int n = blockIdx.x / across / down / conv.out_channels;
    int top = first_y * conv.stride_y - conv.padding_y;
    int left = first_x * conv.stride_x - conv.padding_x;
    int tile_x = threadIdx.x % TILE, tile_y = threadIdx.x / TILE;
    const float *own = halo + tile_y * conv.stride_y * halo_width + tile_x * conv.stride_x;
    const float *plane = input + (n * conv.channels + k / conv.group_outputs * conv.group_channels) * conv.height * conv.width;
    const float *taps = weight + k * conv.taps;

    float sum = 0.0f;
    // ANCHOR: channels
    for (int c = 0; c < conv.group_channels; c++) {
        for (int at = threadIdx.x; at < halo_height * halo_width; at += TILE * TILE) {
            // Unsigned, so that what lies before the edge is beyond it too.
            unsigned row = (unsigned)top + at / halo_width, column = (unsigned)left + at % halo_width;
            bool inside = row < (unsigned)conv.height && column < (unsigned)conv.width;
            halo[at] = inside ? plane[row * conv.width + column] : 0.0f;
        }
        __syncthreads();  // the halo is complete
        for (int r = 0; r < conv.window_y; r++) {
            for (int s = 0; s < conv.window_x; s++) {
                sum = fmaf(own[r * conv.dilation_y * halo_width + s * conv.dilation_x], *taps++, sum);
            }
        }
        __syncthreads();  // all threads are done with it
        plane += conv.height * conv.width;
    }
    // ANCHOR_END: channels

    int x = first_x + tile_x, y = first_y + tile_y;
    if (x < conv.out_width && y < conv.out_height) {
        output[((n * conv.out_channels + k) * conv.out_height + y) * conv.out_width + x] = bias ? sum + bias[k] : sum;
    }
}
// ANCHOR_END: kernel
