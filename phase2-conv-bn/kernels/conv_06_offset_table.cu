// Implicit GEMM without divisions: where the value of a tap lies, seen from the corner of its window, is the same for all pixels,
// so the host writes it into a table, once for a geometry.
//
//     offset  from the corner of the window to the tap, in the input      a pixel knows its corner, and which rows and columns
//     needs   the bit of its row in the window, 16 bits up its column's   of its window lie in the image, as bits too
//
// A value fetched then costs an addition, a comparison and the load; step 5 took two divisions and four comparisons.
//
// Limited by shared memory: two loads for each multiply-add.
// run: conv // trial: conv
#include "conv_window.cuh"

constexpr int BM = 32, BN = 32;  // output channels and pixels per block
constexpr int BK = 32;           // taps per step
constexpr int THREADS = BM * BN;
static_assert(BM == BN && BN == BK, "a thread must fetch one weight and one value of the input, at its own place");

// table: an entry for each tap, and for those that whole steps read beyond the last one, which need a bit that no pixel has.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    conv_table(const float *input, const float *weight, const float *bias, float *output, const int2 *table, Conv2d conv) {
    __shared__ float weights[BM][BK];  // [output channel][tap]
    __shared__ float windows[BK][BN];  // [tap][pixel]
    int row_tiles = (conv.group_outputs + BM - 1) / BM, column_tiles = (conv.pixels + BN - 1) / BN;
    int first_row = blockIdx.x % row_tiles * BM;
    int first_pixel = blockIdx.x / row_tiles % column_tiles * BN;
    int group = blockIdx.x / row_tiles / column_tiles;
    int x = threadIdx.x % BN, y = threadIdx.x / BN;

    int pixel = first_pixel + x;
    int n = pixel / conv.plane, at = pixel % conv.plane;
    const float *corner = input;
    unsigned inside = pixel < conv.pixels ? window_inside(conv, at) : 0;
    if (pixel < conv.pixels) {
        corner += window_corner(conv, n, at, group);
    }

    float sum = 0.0f;
    for (int first = 0; first < conv.taps; first += BK) {
        bool in_weight = first_row + y < conv.group_outputs && first + x < conv.taps;
        int channel = group * conv.group_outputs + first_row + y;
        weights[y][x] = in_weight ? weight[(size_t)channel * conv.taps + first + x] : 0.0f;

        int2 tap = table[first + y];
        unsigned needs = tap.y;
        windows[y][x] = (inside & needs) == needs ? corner[tap.x] : 0.0f;
        __syncthreads();  // the tiles are complete

        for (int i = 0; i < BK; i++) {
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
