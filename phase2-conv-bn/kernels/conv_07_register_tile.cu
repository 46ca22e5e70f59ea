// Implicit GEMM with a register tile, as steps 4 to 7 of the GEMM ladder: a thread makes 8 output channels × 4 pixels.
//
//             x₀ … x₃            For each tap a thread loads 8 weights and 4 values of the input, 16 bytes at a time, and does 32
//      w₀   ┌─────────┐          multiply-adds: 3 loads for 32 in place of 2 for each. Weights are transposed on their way, so
//      …    │ 32 sums │          that a thread's lie side by side.
//      w₇   └─────────┘
//
// Limited by waiting: all warps of a block fetch together, wait together, compute together and wait again.
// run: conv // trial: conv
#include "conv_window.cuh"
#include "vectors.cuh"

constexpr int BM = 64, BN = 64, BK = 16;  // output channels and pixels per block, taps per step
constexpr int TM = 8, TN = 4;             // output channels and pixels per thread
constexpr int THREADS = BM / TM * (BN / TN);
constexpr int W_ROW = BM + 4;             // floats in a row of weights: 16 lanes that store to 16 rows meet 8 banks
constexpr int SHARE = THREADS / BN;       // threads that fetch the values of one pixel
constexpr int WEIGHTS = BM * BK / THREADS, TAPS = BK / SHARE;  // that a thread fetches per step
static_assert(BK % SHARE == 0, "the threads of a pixel must share out the taps of a step evenly");

// table: as in step 6.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    conv_table(const float *input, const float *weight, const float *bias, float *output, const int2 *table, Conv2d conv) {
    __shared__ __align__(16) float weights[BK][W_ROW];  // [tap][output channel]
    __shared__ __align__(16) float windows[BK][BN];     // [tap][pixel]
    int row_tiles = (conv.group_outputs + BM - 1) / BM, column_tiles = (conv.pixels + BN - 1) / BN;
    int first_row = blockIdx.x % row_tiles * BM;
    int first_pixel = blockIdx.x / row_tiles % column_tiles * BN;
    int group = blockIdx.x / row_tiles / column_tiles;

    // The pixel whose values this thread fetches, and its first tap of a step.
    int across = threadIdx.x % BN, first_tap = threadIdx.x / BN * TAPS;
    const float *corner = input;
    unsigned inside = 0;
    if (first_pixel + across < conv.pixels) {
        int n = (first_pixel + across) / conv.plane, at = (first_pixel + across) % conv.plane;
        corner += window_corner(conv, n, at, group);
        inside = window_inside(conv, at);
    }
    // Its output channel and tap among the weights.
    int w_row = threadIdx.x / BK, w_tap = threadIdx.x % BK;
    const float *w_from = weight + ((size_t)group * conv.group_outputs + first_row) * conv.taps;

    int row = threadIdx.x / (BN / TN) * TM, column = threadIdx.x % (BN / TN) * TN;  // of the tile
    float sums[TM][TN] = {};
    for (int first = 0; first < conv.taps; first += BK) {
#pragma unroll
        for (int i = 0; i < WEIGHTS; i++) {
            int r = w_row + i * (THREADS / BK);
            bool in = first_row + r < conv.group_outputs && first + w_tap < conv.taps;
            weights[w_tap][r] = in ? w_from[(size_t)r * conv.taps + first + w_tap] : 0.0f;
        }
#pragma unroll
        for (int t = 0; t < TAPS; t++) {
            int2 tap = table[first + first_tap + t];
            unsigned needs = tap.y;
            windows[first_tap + t][across] = (inside & needs) == needs ? corner[tap.x] : 0.0f;
        }
        __syncthreads();  // the tiles are complete
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float w[TM], x[TN];
            read4(w, &weights[k][row]);
            read4(w + 4, &weights[k][row + 4]);
            read4(x, &windows[k][column]);
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    sums[i][j] += w[i] * x[j];
                }
            }
        }
        __syncthreads();  // all threads are done with them
    }

#pragma unroll
    for (int i = 0; i < TM; i++) {
        write(output, bias, conv, group, first_row + row + i, first_pixel + column,
              make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
    }
}
// ANCHOR_END: kernel
