// Implicit GEMM with its taps cut: where there are fewer tiles than the chip can run blocks, several blocks share a tile's taps.
//
//     blockIdx.y   0: taps 0 … 143 │ 1: taps 144 … 287 │ …      each has a part of every sum of the tile; the last block to
//                                                               finish adds all parts, in their order (conv_parts.cuh)
//
// Limited by the fixed tile: small for large batches, and with one block of 4 warps per tile for small ones.
// run: conv // trial: conv
#include "conv_parts.cuh"
#include "conv_window.cuh"
#include "fetch.cuh"
#include "vectors.cuh"

constexpr int BM = 64, BN = 64, BK = 16;  // output channels and pixels per block, taps per step
constexpr int TM = 8, TN = 4;             // output channels and pixels per thread
constexpr int THREADS = BM / TM * (BN / TN);
constexpr int W_ROW = BM + 4;             // floats in a row of weights: 16 lanes that store to 16 rows meet 8 banks
constexpr int SHARE = THREADS / BN;       // threads that fetch the values of one pixel
constexpr int WEIGHTS = BM * BK / THREADS, TAPS = BK / SHARE;  // that a thread fetches per step
static_assert(BK % SHARE == 0, "the threads of a pixel must share out the taps of a step evenly");

// table: as in step 8. Block (·, y) adds up the steps from y · steps_each.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    conv_table(const float *__restrict__ input, const float *__restrict__ weight, const float *__restrict__ bias,
               float *__restrict__ output, const int2 *__restrict__ table, float *__restrict__ parts,
               unsigned *__restrict__ arrived, Conv2d conv, int steps_each) {
    __shared__ __align__(16) float weights[2][BK][W_ROW];  // [stage][tap][output channel]
    __shared__ __align__(16) float windows[2][BK][BN];     // [stage][tap][pixel]
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
    int begin = blockIdx.y * steps_each * BK, end = min(conv.taps, begin + steps_each * BK);

    // Beyond the last tap both fetch zeros: a branch would let the compiler put the loads after the arithmetic.
    float w_next[WEIGHTS], x_next[TAPS];
    auto fetch_step = [&](int first) {
#pragma unroll
        for (int i = 0; i < WEIGHTS; i++) {
            int r = w_row + i * (THREADS / BK);
            bool in = first_row + r < conv.group_outputs && first + w_tap < conv.taps;
            w_next[i] = fetch(w_from + (size_t)r * conv.taps + first + w_tap, in);
        }
#pragma unroll
        for (int t = 0; t < TAPS; t++) {
            int2 tap = table[first + first_tap + t];
            unsigned needs = tap.y;
            x_next[t] = fetch(corner + tap.x, (inside & needs) == needs);
        }
    };
    auto store_step = [&](int stage) {
#pragma unroll
        for (int i = 0; i < WEIGHTS; i++) {
            weights[stage][w_tap][w_row + i * (THREADS / BK)] = w_next[i];
        }
#pragma unroll
        for (int t = 0; t < TAPS; t++) {
            windows[stage][first_tap + t][across] = x_next[t];
        }
    };

    int row = threadIdx.x / (BN / TN) * TM, column = threadIdx.x % (BN / TN) * TN;  // of the tile
    float sums[TM][TN] = {};
    fetch_step(begin);
    store_step(0);
    __syncthreads();  // the first step's values are there
    int stage = 0;
    for (int first = begin; first < end; first += BK) {
        fetch_step(first + BK);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float w[TM], x[TN];
            read4(w, &weights[stage][k][row]);
            read4(w + 4, &weights[stage][k][row + 4]);
            read4(x, &windows[stage][k][column]);
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    sums[i][j] += w[i] * x[j];
                }
            }
        }
        store_step(stage ^ 1);
        __syncthreads();  // the next step's values are there, and all threads are done with this one's
        stage ^= 1;
    }

    float4 fours[TM];
#pragma unroll
    for (int i = 0; i < TM; i++) {
        fours[i] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    }
    auto finish = [&] {
#pragma unroll
        for (int i = 0; i < TM; i++) {
            write(output, bias, conv, group, first_row + row + i, first_pixel + column, fours[i]);
        }
    };
    // Two paths, since sums that pass through either take 93 registers in place of 78: five blocks per SM, not six.
    if (gridDim.y == 1) {
        finish();
    } else if (add_parts<THREADS>(parts, arrived, fours)) {
        finish();  // in the tile's last block
    }
}
// ANCHOR_END: kernel
