// Implicit GEMM with two sets of operands in registers: those of the next tap are read before this one's are multiplied.
//
//     read       0 1 2 3 … 15       The loads for a tap have the 32 multiply-adds of the tap before to arrive in.
//     multiply     0 1 2 … 14 15    Only those for the first tap of a step are waited for.
//
// Limited by the loads from shared memory still: 3, of 6 wavefronts, for 32 multiply-adds.
// run: conv // trial: conv
#include "conv_parts.cuh"
#include "conv_window.cuh"
#include "fetch.cuh"
#include "vectors.cuh"

constexpr int BM = 64, BN = 64, BK = 16;  // output channels and pixels per block, taps per step
constexpr int TM = 8, TN = 4;             // output channels and pixels per thread
constexpr int WM = 32, WN = 32;           // per warp
constexpr int LANES_Y = WM / TM, LANES_X = WN / TN;
static_assert(LANES_Y == 4 && LANES_X == 8, "a warp's tile must be 4 lanes high and 8 across, as their bits are dealt out");
constexpr int THREADS = BM / TM * (BN / TN);
constexpr int W_ROW = BM + 4;             // floats in a row of weights: 32 lanes that store to 4 rows meet 16 banks
constexpr int SHARE = THREADS / BN;       // threads that fetch the values of one pixel
constexpr int WEIGHTS = BM * BK / THREADS, TAPS = BK / SHARE;  // that a thread fetches per step
static_assert(BK % SHARE == 0 && TAPS % 2 == 0, "the threads of a pixel must share out the taps of a step in pairs");
static_assert(WEIGHTS % 4 == 0, "a thread must fetch weights in groups of 4");

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
    // Its output channel, and the first of its four taps, among the weights.
    int w_row = threadIdx.x / (BK / 4), w_tap = threadIdx.x % (BK / 4) * 4;
    bool rows_of_4 = conv.taps % 4 == 0;
    const float *w_from = weight + ((size_t)group * conv.group_outputs + first_row) * conv.taps;
    int begin = blockIdx.y * steps_each * BK, end = min(conv.taps, begin + steps_each * BK);

    // Beyond the last tap both fetch zeros: a branch would let the compiler put the loads after the arithmetic.
    float w_next[WEIGHTS], x_next[TAPS];
    auto fetch_step = [&](int first) {
#pragma unroll
        for (int i = 0; i < WEIGHTS; i += 4) {
            int r = w_row + i / 4 * (THREADS / (BK / 4)), k = first + w_tap;
            int length = first_row + r < conv.group_outputs ? conv.taps : 0;
            const float *from = w_from + (size_t)r * conv.taps + k;
            float4 four = rows_of_4 ? fetch4(from, k < length)
                                    : make_float4(fetch(from, k < length), fetch(from + 1, k + 1 < length),
                                                  fetch(from + 2, k + 2 < length), fetch(from + 3, k + 3 < length));
            w_next[i] = four.x, w_next[i + 1] = four.y, w_next[i + 2] = four.z, w_next[i + 3] = four.w;
        }
#pragma unroll
        for (int t = 0; t < TAPS; t += 2) {
            int4 two = *reinterpret_cast<const int4 *>(table + first + first_tap + t);
            unsigned needs = two.y, next_needs = two.w;
            x_next[t] = fetch(corner + two.x, (inside & needs) == needs);
            x_next[t + 1] = fetch(corner + two.z, (inside & next_needs) == next_needs);
        }
    };
    auto store_step = [&](int stage) {
#pragma unroll
        for (int i = 0; i < WEIGHTS; i++) {
            weights[stage][w_tap + i % 4][w_row + i / 4 * (THREADS / (BK / 4))] = w_next[i];
        }
#pragma unroll
        for (int t = 0; t < TAPS; t++) {
            windows[stage][first_tap + t][across] = x_next[t];
        }
    };

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int down = (lane >> 1 & 1) | (lane >> 3 & 2), right = (lane & 1) | (lane >> 1 & 6);  // of 4 × 8 lanes
    int row = warp / (BN / WN) * WM + down * 4, column = warp % (BN / WN) * WN + right * 4;  // of the tile
    float sums[TM][TN] = {};
    fetch_step(begin);
    store_step(0);
    __syncthreads();  // the first step's values are there
    int stage = 0;
    for (int first = begin; first < end; first += BK) {
        fetch_step(first + BK);
        float w[2][TM], x[2][TN];  // of this tap and the next
        auto read = [&](int k) {
            read4(w[k % 2], &weights[stage][k][row]);
            read4(w[k % 2] + 4, &weights[stage][k][row + 4 * LANES_Y]);
            read4(x[k % 2], &windows[stage][k][column]);
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
        store_step(stage ^ 1);
        __syncthreads();  // the next step's values are there, and all threads are done with this one's
        stage ^= 1;
    }

    float4 fours[TM];
#pragma unroll
    for (int i = 0; i < TM; i++) {
        fours[i] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    }
    if (gridDim.y > 1 && !add_parts<THREADS>(parts, arrived, fours)) {
        return;  // the tile's last block will write it
    }
#pragma unroll
    for (int i = 0; i < TM; i++) {
        write(output, bias, conv, group, first_row + row + i / 4 * 4 * LANES_Y + i % 4, first_pixel + column, fours[i]);
    }
}
// ANCHOR_END: kernel
