// Implicit GEMM with three steps in shared memory: the copies for one have the time of two others to arrive in.
//
//     step       0 1 2 3 4          Each step's copies are a group. Waiting until all but the last STAGES - 2 groups are there is
//     copy       0 1 2 3 4          waiting for this step's, asked for STAGES - 1 steps ago. The stage to copy to is the one that
//     multiply       0 1 2          was multiplied last, so one barrier per step is enough.
//
// Limited by the fixed tile: small for large batches, and with few blocks of 4 warps for single images.
// nvrtc: --gpu-architecture=compute_80 // run: conv // trial: conv
#include "conv_parts.cuh"
#include "conv_window.cuh"
#include "cp_async.cuh"
#include "vectors.cuh"

constexpr int BM = 64, BN = 128, BK = 16;  // output channels and pixels per block, taps per step
constexpr int TM = 8, TN = 8;              // output channels and pixels per thread
constexpr int WM = 32, WN = 64;            // per warp
constexpr int LANES_Y = WM / TM, LANES_X = WN / TN;
static_assert(LANES_Y == 4 && LANES_X == 8, "a warp's tile must be 4 lanes high and 8 across, as their bits are dealt out");
constexpr int THREADS = BM / TM * (BN / TN);
constexpr int BLOCKS = 3;                  // at a time on an SM: up to 168 registers per thread
constexpr int STAGES = 3;                  // steps in shared memory at a time
constexpr int W_ROW = BM + 4;              // floats in a row of weights: 16 lanes that copy to 16 rows meet 8 banks
constexpr int SHARE = THREADS / BN;        // threads that fetch the values of one pixel
constexpr int WEIGHTS = BM * BK / THREADS, TAPS = BK / SHARE;  // that a thread fetches per step
static_assert(BK % SHARE == 0 && TAPS % 2 == 0, "the threads of a pixel must share out the taps of a step in pairs");

// table: as in step 6, and two steps more, which are copied ahead. Block (·, y) adds up the steps from y · steps_each.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_table(const float *__restrict__ input, const float *__restrict__ weight, const float *__restrict__ bias,
               float *__restrict__ output, const int2 *__restrict__ table, float *__restrict__ parts,
               unsigned *__restrict__ arrived, Conv2d conv, int steps_each) {
    __shared__ __align__(16) float weights[STAGES][BK][W_ROW];  // [stage][tap][output channel]
    __shared__ __align__(16) float windows[STAGES][BK][BN];     // [stage][tap][pixel]
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

    // Beyond the last tap both copy zeros.
    auto copy_step = [&](int first, int stage) {
#pragma unroll
        for (int i = 0; i < WEIGHTS; i++) {
            int r = w_row + i * (THREADS / BK);
            bool in = first_row + r < conv.group_outputs && first + w_tap < conv.taps;
            copy4(&weights[stage][w_tap][r], w_from + (size_t)r * conv.taps + first + w_tap, in);
        }
#pragma unroll
        for (int t = 0; t < TAPS; t += 2) {
            int4 two = *reinterpret_cast<const int4 *>(table + first + first_tap + t);
            unsigned needs = two.y, next_needs = two.w;
            copy4(&windows[stage][first_tap + t][across], corner + two.x, (inside & needs) == needs);
            copy4(&windows[stage][first_tap + t + 1][across], corner + two.z, (inside & next_needs) == next_needs);
        }
    };

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int down = (lane >> 1 & 1) | (lane >> 3 & 2), right = (lane & 1) | (lane >> 1 & 6);  // of 4 × 8 lanes
    int row = warp / (BN / WN) * WM + down * 4, column = warp % (BN / WN) * WN + right * 4;  // of the tile
    float sums[TM][TN] = {};
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        copy_step(begin + ahead * BK, ahead);
        end_copy_group();
    }
    int stage = 0;
    for (int first = begin; first < end; first += BK) {
        copy_groups_arrived<STAGES - 2>();
        __syncthreads();  // this step's values are there, and all threads are done with those of the step before
        copy_step(first + (STAGES - 1) * BK, (stage + STAGES - 1) % STAGES);
        end_copy_group();
        float w[2][TM], x[2][TN];  // of this tap and the next
        auto read = [&](int k) {
            read4(w[k % 2], &weights[stage][k][row]);
            read4(w[k % 2] + 4, &weights[stage][k][row + 4 * LANES_Y]);
            read4(x[k % 2], &windows[stage][k][column]);
            read4(x[k % 2] + 4, &windows[stage][k][column + 4 * LANES_X]);
        };
        read(0);
#pragma unroll  // so that k % 2 is known, and the two sets are registers
        for (int k = 0; k < BK; k++) {
            if (k + 1 < BK) {
                read(k + 1);
            }
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    sums[i][j] += w[k % 2][i] * x[k % 2][j];
                }
            }
        }
        stage = (stage + 1) % STAGES;
    }
    copies_arrived();  // no copy may outlive its block

    float4 fours[TM * 2];
#pragma unroll
    for (int f = 0; f < TM * 2; f++) {
        const float *s = &sums[f / 2][f % 2 * 4];
        fours[f] = make_float4(s[0], s[1], s[2], s[3]);
    }
    if (gridDim.y > 1 && !add_parts<THREADS>(parts, arrived, fours)) {
        return;  // the tile's last block will write it
    }
#pragma unroll
    for (int f = 0; f < TM * 2; f++) {
        int i = f / 2, pixel = first_pixel + column + f % 2 * 4 * LANES_X;
        write(output, bias, conv, group, first_row + row + i / 4 * 4 * LANES_Y + i % 4, pixel, fours[f]);
    }
}
// ANCHOR_END: kernel
