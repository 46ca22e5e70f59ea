// A block's tile of a convolution as a product of matrices, as steps 6 to 15 of the ladder made it, for any shape of tile.
//
//     rows: output channels of a group      columns: pixels (n, p, q)      reduction: taps (c, r, s)
//
// What came from where: the table of taps 6, register tiles 7, the next step on its way 8, cut taps 9, loads of 16 bytes 10, warp
// tiles 11, operands read ahead 12, 8 × 8 sums 13, copies that no register sees 14, more stages 15.
// run: conv // trial: conv
#pragma once

#include "conv_parts.cuh"
#include "conv_window.cuh"
#include "cp_async.cuh"
#include "epilogue.cuh"
#include "fetch.cuh"
#include "lanes.cuh"
#include "vectors.cuh"

constexpr int STEP = 16;  // taps per step

// A shape of tile is a struct with these constants:
//
//     BM, BN               output channels and pixels per block
//     WM, WN, LANES_Y      output channels and pixels per warp, and its lanes down (32 / LANES_Y across)
//     STAGES               steps in shared memory at a time
//     THROUGH_REGISTERS    whether the next step's values wait in registers while this one is multiplied, for two stages of shared
//                          memory; otherwise cp.async brings them straight, 4 bytes each
//
// What follows from it for a launch. The host reads these from the compiled kernel by their names.
template <class Shape> struct Geometry {
    static constexpr int THREADS = Shape::BM / Shape::WM * (Shape::BN / Shape::WN) * 32;
    static constexpr int A_ROW = Shape::BM + 4;  // 4 floats after each row of weights: transposing stores without conflicts
    static constexpr int SHARED = Shape::STAGES * STEP * (A_ROW + Shape::BN) * sizeof(float);  // bytes
};

// VECTORS: rows of weights begin at multiples of 16 bytes.
template <class Shape, bool VECTORS> struct ConvTile {
    // The shape, and what a launch needs of it.
    static constexpr int BM = Shape::BM, BN = Shape::BN, WM = Shape::WM, WN = Shape::WN;
    static constexpr int LANES_Y = Shape::LANES_Y, STAGES = Shape::STAGES;
    static constexpr bool THROUGH_REGISTERS = Shape::THROUGH_REGISTERS;
    static constexpr int THREADS = Geometry<Shape>::THREADS, A_ROW = Geometry<Shape>::A_ROW;
    // What a thread adds up.
    static constexpr int LANES_X = 32 / LANES_Y, TM = WM / LANES_Y, TN = WN / LANES_X, FOURS = TM * TN / 4;
    // What a thread fetches.
    static constexpr int PIXELS = BN > THREADS ? BN / THREADS : 1;  // of which it fetches values
    static constexpr int SHARE = BN > THREADS ? 1 : THREADS / BN;   // threads that share a pixel
    static constexpr int TAPS = STEP / SHARE;                       // per step
    static constexpr int WEIGHTS = BM * STEP / THREADS;             // per step
    static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread's channels and pixels must come in groups of 4");
    static_assert(STEP % SHARE == 0 && TAPS % 2 == 0, "the threads of a pixel must share out the taps of a step in pairs");
    static constexpr int TOGETHER = THROUGH_REGISTERS ? 4 : 1;      // weights that are neighbours in a row
    static constexpr int W_APART = THREADS * TOGETHER / STEP;       // output channels between a thread's groups of them
    static_assert(WEIGHTS % TOGETHER == 0, "a thread must fetch weights in groups of 4");
    static_assert(THREADS * TOGETHER % STEP == 0, "the threads must fetch the weights of whole output channels at a time");
    static_assert(!THROUGH_REGISTERS || STAGES == 2, "through registers there are two stages: multiplied, and stored to next");

    // ANCHOR: kernel
    static __device__ void run(const float *input, const float *weight, const float *bias, float *output,
                               const int2 *table, float *parts, unsigned *arrived, const Conv2d &conv, int steps_each,
                               const Epilogue &epilogue) {
        extern __shared__ float4 shared[];
        float *a_stages = reinterpret_cast<float *>(shared), *b_stages = a_stages + STAGES * STEP * A_ROW;
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        int row = warp / (BN / WN) * WM + Lanes<LANES_Y, LANES_X>::row(lane) * 4;
        int column = warp % (BN / WN) * WN + Lanes<LANES_Y, LANES_X>::column(lane) * 4;
        int row_tiles = (conv.group_outputs + BM - 1) / BM, column_tiles = (conv.pixels + BN - 1) / BN;
        int first_row = blockIdx.x % row_tiles * BM, first_pixel = blockIdx.x / row_tiles % column_tiles * BN;
        int group = blockIdx.x / row_tiles / column_tiles;
        int first = blockIdx.y * steps_each;
        int steps = min(steps_each, (conv.taps + STEP - 1) / STEP - first);

        // The corners of the windows whose values this thread fetches, and the rows and columns of them that lie in the image.
        const float *corner[PIXELS];
        unsigned inside[PIXELS];
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
            int pixel = first_pixel + threadIdx.x % BN + i * THREADS;
            corner[i] = input;
            inside[i] = 0;
            if (pixel < conv.pixels) {
                int n = pixel / conv.plane, at = pixel % conv.plane;
                int top = at / conv.out_width * conv.stride_y - conv.padding_y;
                int left = at % conv.out_width * conv.stride_x - conv.padding_x;
                for (int r = 0; r < conv.window_y; r++) {
                    inside[i] |= (unsigned)((unsigned)(top + r * conv.dilation_y) < (unsigned)conv.height) << r;
                }
                for (int s = 0; s < conv.window_x; s++) {
                    inside[i] |= (unsigned)((unsigned)(left + s * conv.dilation_x) < (unsigned)conv.width) << (16 + s);
                }
                long long channel = (long long)n * conv.channels + group * conv.group_channels;
                corner[i] += (channel * conv.height + top) * conv.width + left;
            }
        }
        const int first_tap = threadIdx.x / BN * TAPS;
        const int2 *entries = table + first * STEP + first_tap;
        // Its first output channel and tap among the weights.
        const int w_row = threadIdx.x / (STEP / TOGETHER), w_tap = threadIdx.x % (STEP / TOGETHER) * TOGETHER;
        const float *weights = weight + ((long long)group * conv.group_outputs + first_row) * conv.taps;

        float a_next[THROUGH_REGISTERS ? WEIGHTS : 1], b_next[THROUGH_REGISTERS ? TAPS * PIXELS : 1];
        // Copies end with the block's last step. What goes through registers needs no test: beyond that step it is never multiplied.
        auto needed = [&](int step) { return THROUGH_REGISTERS || step < steps; };
        auto fetch_input = [&](int step, int stage) {
            const unsigned some = needed(step) ? ~0u : 0u;
            float *to = b_stages + (stage * STEP + first_tap) * BN + threadIdx.x % BN;
            const int4 *two = reinterpret_cast<const int4 *>(entries + step * STEP);
#pragma unroll
            for (int t = 0; t < TAPS; t += 2) {
                int4 entry = __ldg(two + t / 2);
#pragma unroll
                for (int i = 0; i < PIXELS; i++) {
                    bool in_0 = (inside[i] & some & (unsigned)entry.y) == (unsigned)entry.y;
                    bool in_1 = (inside[i] & some & (unsigned)entry.w) == (unsigned)entry.w;
                    if constexpr (THROUGH_REGISTERS) {
                        b_next[t * PIXELS + i] = fetch(corner[i] + entry.x, in_0);
                        b_next[(t + 1) * PIXELS + i] = fetch(corner[i] + entry.z, in_1);
                    } else {
                        copy4(to + t * BN + i * THREADS, corner[i] + entry.x, in_0);
                        copy4(to + (t + 1) * BN + i * THREADS, corner[i] + entry.z, in_1);
                    }
                }
            }
        };
        auto fetch_weights = [&](int step, int stage) {
            if constexpr (THROUGH_REGISTERS) {
#pragma unroll
                for (int i = 0; i < WEIGHTS; i += 4) {
                    int r = w_row + i / 4 * W_APART, k = (first + step) * STEP + w_tap;
                    int length = first_row + r < conv.group_outputs ? conv.taps : 0;
                    const float *from = weights + (long long)r * conv.taps + k;
                    float4 four = VECTORS ? fetch4(from, k < length)
                                          : make_float4(fetch(from, k < length), fetch(from + 1, k + 1 < length),
                                                        fetch(from + 2, k + 2 < length), fetch(from + 3, k + 3 < length));
                    a_next[i] = four.x, a_next[i + 1] = four.y, a_next[i + 2] = four.z, a_next[i + 3] = four.w;
                }
            } else {
#pragma unroll
                for (int i = 0; i < WEIGHTS; i++) {
                    int r = w_row + i * W_APART, k = (first + step) * STEP + w_tap;
                    bool in = needed(step) && first_row + r < conv.group_outputs && k < conv.taps;
                    const float *from = in ? weights + (long long)r * conv.taps + k : weight;
                    copy4(a_stages + (stage * STEP + w_tap) * A_ROW + r, from, in);
                }
            }
        };
        auto store = [&](int stage) {
            if constexpr (THROUGH_REGISTERS) {
#pragma unroll
                for (int i = 0; i < WEIGHTS; i++) {
                    a_stages[(stage * STEP + w_tap + i % 4) * A_ROW + w_row + i / 4 * W_APART] = a_next[i];
                }
                float *to = b_stages + (stage * STEP + first_tap) * BN + threadIdx.x % BN;
#pragma unroll
                for (int i = 0; i < TAPS * PIXELS; i++) {
                    to[i / PIXELS * BN + i % PIXELS * THREADS] = b_next[i];
                }
            }
        };

        float sums[TM][TN] = {};
        const float *a_lane = a_stages + row, *b_lane = b_stages + column;
        auto multiply = [&](int stage) {
            const float *a_from = a_lane + stage * STEP * A_ROW, *b_from = b_lane + stage * STEP * BN;
            float a[2][TM], b[2][TN];
            auto read = [&](int k, int to) {
#pragma unroll
                for (int i = 0; i < TM; i += 4) {
                    read4(&a[to][i], a_from + k * A_ROW + i * LANES_Y);
                }
#pragma unroll
                for (int j = 0; j < TN; j += 4) {
                    read4(&b[to][j], b_from + k * BN + j * LANES_X);
                }
            };
            read(0, 0);
#pragma unroll
            for (int k = 0; k < STEP; k++) {
                if (k + 1 < STEP) {
                    read(k + 1, (k + 1) % 2);
                }
#pragma unroll
                for (int i = 0; i < TM; i++) {
#pragma unroll
                    for (int j = 0; j < TN; j++) {
                        sums[i][j] += a[k % 2][i] * b[k % 2][j];
                    }
                }
            }
        };

        if constexpr (THROUGH_REGISTERS) {
            fetch_input(0, 0);
            fetch_weights(0, 0);
            store(0);
            __syncthreads();  // the first step's values are there
            for (int step = 0; step < steps; step++) {
                fetch_input(step + 1, 0);
                fetch_weights(step + 1, 0);
                multiply(step % 2);
                store((step + 1) % 2);
                __syncthreads();  // the next step's values are there, and all threads are done with this one's
            }
        } else {
#pragma unroll
            for (int stage = 0; stage < STAGES - 1; stage++) {
                fetch_input(stage, stage);
                fetch_weights(stage, stage);
                end_copy_group();
            }
            for (int step = 0; step < steps; step++) {
                copy_groups_arrived<STAGES - 2>();
                __syncthreads();  // this step's values are there, and all threads are done with those of the one before
                fetch_input(step + STAGES - 1, (step + STAGES - 1) % STAGES);
                fetch_weights(step + STAGES - 1, (step + STAGES - 1) % STAGES);
                end_copy_group();
                multiply(step % STAGES);
            }
            copies_arrived();  // no copy may outlive its block
        }

        bool rows_of_4 = conv.plane % 4 == 0;
        auto finish = [&](int f, float4 four) {
            int i = f / (TN / 4), k = first_row + row + i / 4 * LANES_Y * 4 + i % 4;
            int pixel = first_pixel + column + f % (TN / 4) * LANES_X * 4;
            if (k >= conv.group_outputs) {
                return;
            }
            k += group * conv.group_outputs;
            float add = bias_at(bias, k);
            auto place = [&](int pixel) {
                return output + ((long long)(pixel / conv.plane) * conv.out_channels + k) * conv.plane + pixel % conv.plane;
            };
            if (rows_of_4) {
                if (pixel < conv.pixels) {
                    epilogue.finish(reinterpret_cast<float4 *>(place(pixel)), four, make_float4(add, add, add, add));
                }
                return;
            }
            const float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (pixel + j < conv.pixels) {
                    epilogue.finish(place(pixel + j), each[j], add);
                }
            }
        };
        float4 fours[FOURS];
#pragma unroll
        for (int f = 0; f < FOURS; f++) {
            const float *s = &sums[f / (TN / 4)][f % (TN / 4) * 4];
            fours[f] = make_float4(s[0], s[1], s[2], s[3]);
        }
        if (gridDim.y > 1 && !add_parts<THREADS>(parts, arrived, fours)) {
            return;  // the tile's last block will write it
        }
#pragma unroll
        for (int f = 0; f < FOURS; f++) {
            finish(f, fours[f]);
        }
    }
    // ANCHOR_END: kernel
};
