// A block's tile of A·B as steps 10 to 17 of the ladder made it, for any shape of tile, and for products with ragged edges.
//
//     global ──cp.async──▶ shared, STAGES steps of BK deep ──16 bytes──▶ registers, two values of i ──▶ TM · TN sums per thread
//
// What came from where: whole tiles 10, transposing copies 11, stages 12, reading ahead 13, copies spread over the multiply-adds
// 14, back and forth 15, bands 16, slices 17. Each idea is explained in its own step.
// run: gemm // trial: gemm
#pragma once

#include "cp_async.cuh"
#include "gemm.cuh"
#include "lanes.cuh"
#include "vectors.cuh"

// A shape of tile is a struct with these constants:
//
//     BM, BN    rows and columns of C per block
//     BK        values of i per step
//     WM, WN    rows and columns of C per warp
//     SLICES    warps for each WM × WN of C, which share out the values of i of every step
//     STAGES    steps in shared memory at a time
//
// What follows from it for a launch. The host reads these from the compiled kernel by their names.
template <class Shape> struct Geometry {
    static constexpr int THREADS = Shape::BM / Shape::WM * (Shape::BN / Shape::WN) * Shape::SLICES * 32;
    // A warp's transposing copies are 8 values of i (a sector) for 4 rows: with 4 floats after each row, to 32 banks.
    static constexpr int A_ROW = Shape::BM + 4, B_ROW = Shape::BN + 4;
    static constexpr int SHARED = Shape::STAGES * Shape::BK * (A_ROW + B_ROW) * sizeof(float);  // bytes
};

// FULL says that tiles lie inside A, B and C entirely, rows begin at multiples of 16 bytes, and K is a multiple of BK. LAYOUT is
// B's; A_LAYOUT is TRANSPOSED if A is given as [K, M], as shared memory wants it.
template <class Shape, Layout LAYOUT, bool FULL, Layout A_LAYOUT = ROW_MAJOR> struct Tile {
    // The shape, and what a launch needs of it.
    static constexpr int BM = Shape::BM, BN = Shape::BN, BK = Shape::BK, WM = Shape::WM, WN = Shape::WN;
    static constexpr int SLICES = Shape::SLICES, STAGES = Shape::STAGES;
    static constexpr int THREADS = Geometry<Shape>::THREADS, WARPS = THREADS / 32, SLICE = WARPS / SLICES;  // warps of a slice
    static constexpr int A_ROW = Geometry<Shape>::A_ROW, B_ROW = Geometry<Shape>::B_ROW;  // floats
    static constexpr int A_STAGE = BK * A_ROW, B_STAGE = BK * B_ROW;
    // What a thread adds up.
    static constexpr int LANES_Y = 4, LANES_X = 8;              // a warp's lanes, down and across its WM × WN
    static constexpr int TM = WM / LANES_Y, TN = WN / LANES_X;  // rows and columns of C per thread, in groups of 4
    static constexpr int GROUPS = TM * TN / 4;                  // of four sums that are neighbours in a row
    static constexpr int DEPTH = BK / SLICES;                   // values of i per step and slice
    // What a thread copies.
    static constexpr int SPANS = BK / 8, APART = WARPS / SPANS * 4;  // rows between a thread's transposing copies
    static constexpr bool B_BY_16 = LAYOUT == ROW_MAJOR && FULL;
    static constexpr int B_ACROSS = B_BY_16 ? BN / 4 : BN;      // threads that copy one row of B, if it is row-major
    static constexpr int B_APART = LAYOUT == ROW_MAJOR ? THREADS / B_ACROSS : APART;
    static constexpr bool A_BY_16 = A_LAYOUT == TRANSPOSED && FULL;
    static constexpr int A_ACROSS = A_BY_16 ? BM / 4 : BM;      // threads that copy one row of A, if it is transposed
    static constexpr int A_APART = A_LAYOUT == TRANSPOSED ? THREADS / A_ACROSS : APART;
    static constexpr int A_COPIES = BM * BK / (A_BY_16 ? 4 : 1) / THREADS, COPIES = A_COPIES + BN * BK / (B_BY_16 ? 4 : 1) / THREADS;
    static constexpr int COPIES_EACH = (COPIES + DEPTH - 2) / (DEPTH - 1);  // for each i of a step but the last
    static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread's rows and columns must come in groups of 4");
    static_assert(BK % 8 == 0 && WARPS % SPANS == 0, "whole warps must share out the sectors of 8 values of i of a step");
    static_assert(BM % APART == 0, "the transposing copies must cover the rows of A's tile exactly");
    static_assert(LAYOUT == ROW_MAJOR || BN % APART == 0, "the transposing copies must cover the columns of B's tile exactly");
    static_assert(LAYOUT == TRANSPOSED || THREADS % B_ACROSS == 0, "the threads must copy whole rows of B's tile at a time");
    static_assert(A_LAYOUT == ROW_MAJOR || THREADS % A_ACROSS == 0, "the threads must copy whole rows of A's tile at a time");
    static_assert(DEPTH % 2 == 0, "the two sets of registers must change places within a step");
    static_assert(SLICES * BM * B_ROW <= STAGES * (A_STAGE + B_STAGE), "the slices' sums must fit where the steps were");

    float sums[TM][TN];

    __device__ static int lane() { return threadIdx.x % 32; }
    __device__ static int warp() { return threadIdx.x / 32; }
    __device__ static int slice() { return warp() / SLICE; }
    // The row and column in the tile of this thread's group `g` of four sums.
    __device__ static int row(int g) {
        int i = g / (TN / 4);
        return warp() % SLICE / (BN / WN) * WM + Lanes<LANES_Y, LANES_X>::row(lane()) * 4 + i / 4 * 4 * LANES_Y + i % 4;
    }
    __device__ static int column(int g) {
        return warp() % (BN / WN) * WN + (Lanes<LANES_Y, LANES_X>::column(lane()) + g % (TN / 4) * LANES_X) * 4;
    }
    __device__ float4 four(int g) const {
        const float *s = &sums[g / (TN / 4)][g % (TN / 4) * 4];
        return make_float4(s[0], s[1], s[2], s[3]);
    }

    // sums = A[first_row …, BK·first …] · B[BK·first …, first_column …] over `steps` steps of BK, at least one; a slice adds
    // its share. All threads of the block call it; all are done with `shared` when the first returns.
    // ANCHOR: multiply
    __device__ void multiply(float *shared, const float *a, const float *b, int m, int n, int k, int first_row,
                             int first_column, int first, int steps) {
        float *a_stages = shared, *b_stages = shared + STAGES * A_STAGE;
        // This thread's place in transposing copies, and in copies along a row of B.
        int span = warp() % SPANS * 8 + lane() % 8, across = warp() / SPANS * 4 + lane() / 8;
        int down = threadIdx.x / B_ACROSS, along = threadIdx.x % B_ACROSS * (B_BY_16 ? 4 : 1);
        int a_down = threadIdx.x / A_ACROSS, a_along = threadIdx.x % A_ACROSS * (A_BY_16 ? 4 : 1);
        constexpr bool A_IN_COLUMNS = A_LAYOUT == TRANSPOSED;
        int a_i = BK * first + (A_IN_COLUMNS ? a_down : span), b_i = BK * first + (LAYOUT == ROW_MAJOR ? down : span);
        const float *a_next = A_IN_COLUMNS ? a + (size_t)a_i * m + first_row + a_along : a + (size_t)(first_row + across) * k + a_i;
        const float *a_from = a_next;
        const float *b_next = b + place_in_b<LAYOUT>(b_i, first_column + (LAYOUT == ROW_MAJOR ? along : across), n, k);
        const float *b_from = b_next;
        const size_t a_apart = (size_t)A_APART * (A_IN_COLUMNS ? m : k), b_apart = (size_t)B_APART * (LAYOUT == ROW_MAJOR ? n : k);
        float *a_to = a_stages, *b_to = b_stages;
        auto begin_step = [&](int stage) {
            a_from = a_next;
            b_from = b_next;
            a_next += A_IN_COLUMNS ? (size_t)BK * m : BK;
            b_next += LAYOUT == ROW_MAJOR ? (size_t)BK * n : BK;
            a_to = a_stages + stage * A_STAGE + (A_IN_COLUMNS ? a_down * A_ROW + a_along : span * A_ROW + across);
            b_to = b_stages + stage * B_STAGE + (LAYOUT == ROW_MAJOR ? down * B_ROW + along : span * B_ROW + across);
        };
        // Copy number `c` of this thread's COPIES for a step, in order.
        auto copy = [&](int c) {
            if (c < A_COPIES && A_IN_COLUMNS) {
                float *to = a_to + c * A_APART * A_ROW;
                bool inside = first_row + a_along < m && a_i + c * A_APART < k;
                FULL ? copy16(to, a_from) : copy4(to, inside ? a_from : a, inside);
                a_from += a_apart;
            } else if (c < A_COPIES) {
                bool inside = first_row + across + c * APART < m && a_i < k;
                FULL ? copy4(a_to + c * APART, a_from) : copy4(a_to + c * APART, inside ? a_from : a, inside);
                a_from += a_apart;
            } else if (c < COPIES) {
                c -= A_COPIES;
                if (LAYOUT == TRANSPOSED) {
                    bool inside = first_column + across + c * APART < n && b_i < k;
                    FULL ? copy4(b_to + c * APART, b_from) : copy4(b_to + c * APART, inside ? b_from : b, inside);
                } else {
                    float *to = b_to + c * B_APART * B_ROW;
                    bool inside = first_column + along < n && b_i + c * B_APART < k;
                    FULL ? copy16(to, b_from) : copy4(to, inside ? b_from : b, inside);
                }
                b_from += b_apart;
            }
        };
        auto end_step = [&] {
            a_i += BK;
            b_i += BK;
            end_copy_group();
        };
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; stage++) {
            if (stage < steps) {
                begin_step(stage);
#pragma unroll
                for (int c = 0; c < COPIES; c++) {
                    copy(c);
                }
            }
            end_step();
        }
#pragma unroll
        for (int r = 0; r < TM; r++) {
#pragma unroll
            for (int s = 0; s < TN; s++) {
                sums[r][s] = 0.0f;
            }
        }

        float rows[2][TM], columns[2][TN];
        const float *a_rows = a_stages + slice() * DEPTH * A_ROW + row(0), *a_now = a_rows;
        const float *b_columns = b_stages + slice() * DEPTH * B_ROW + column(0), *b_now = b_columns;
        auto read = [&](int i, int to) {
#pragma unroll
            for (int r = 0; r < TM; r += 4) {
                read4(&rows[to][r], a_now + i * A_ROW + r * LANES_Y);
            }
#pragma unroll
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[to][s], b_now + i * B_ROW + s * LANES_X);
            }
        };
        copy_groups_arrived<STAGES - 2>();
        __syncthreads();  // the first step's values are there
        read(0, 0);
        int stage = 0, free_stage = STAGES - 1;
        for (int step = 0; step < steps; step++) {
            bool more = step + STAGES - 1 < steps;
            if (more) {
                begin_step(free_stage);
            }
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            free_stage = free_stage + 1 == STAGES ? 0 : free_stage + 1;
#pragma unroll
            for (int i = 0; i < DEPTH; i++) {
                if (i < DEPTH - 1) {
                    read(i + 1, (i + 1) % 2);
                    if (more) {
#pragma unroll
                        for (int c = i * COPIES_EACH; c < (i + 1) * COPIES_EACH; c++) {
                            copy(c);
                        }
                    }
                } else {
                    end_step();
                    copy_groups_arrived<STAGES - 2>();
                    __syncthreads();  // the next step's values are there, and all threads have read the free stage's
                    // After the last step there is no next: what is read once more is not used.
                    int next = step + 1 < steps ? stage : 0;
                    a_now = a_rows + next * A_STAGE;
                    b_now = b_columns + next * B_STAGE;
                    read(0, 0);
                }
#pragma unroll
                for (int at = 0; at < TM * TN; at++) {
                    // Back and forth, so that each multiply-add shares an operand with the one before.
                    int r = at / TN, s = r % 2 ? TN - 1 - at % TN : at % TN;
                    sums[r][s] = fmaf(rows[i % 2][r], columns[i % 2][s], sums[r][s]);
                }
            }
        }
        __syncthreads();  // all threads are done with shared memory
    }
    // ANCHOR_END: multiply

    // Finishes the sums of group `g` and writes those that lie inside C.
    __device__ static void finish_group(int g, float4 sums, const Epilogue &epilogue, const float *bias, float *c, int m,
                                        int n, int first_row, int first_column) {
        int at = first_row + row(g);
        finish4<FULL>(epilogue, sums, bias, c + (size_t)at * n, first_column + column(g), FULL || at < m ? n : 0);
    }

    // Adds up the slices' sums, finishes them and writes those that lie inside C.
    __device__ void finish(float *shared, const Epilogue &epilogue, const float *bias, float *c, int m, int n,
                           int first_row, int first_column) const {
        // What is added in four columns from `column` of the tile on, if they are there for certain.
        auto add_at = [&](int column) { return FULL ? bias4_at(bias, first_column + column) : float4(); };
        auto write = [&](const Epilogue &epilogue, int row, int column, float4 sums, float4 add) {
            float *to = c + (size_t)(first_row + row) * n;
            if (FULL) {
                epilogue.finish(reinterpret_cast<float4 *>(to + first_column + column), sums, add);
            } else {
                finish4<false>(epilogue, sums, bias, to, first_column + column, first_row + row < m ? n : 0);
            }
        };
        if (SLICES == 1) {
            float4 add[TN / 4];
#pragma unroll
            for (int s = 0; s < TN / 4; s++) {
                add[s] = add_at(column(s));
            }
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                write(epilogue, row(g), column(g), four(g), add[g % (TN / 4)]);
            }
            return;
        }
        // Times alpha already here: stored as they are, the sums would have to be in registers four by four all along.
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            float alpha = epilogue.alpha;
            float4 f = four(g), scaled = make_float4(alpha * f.x, alpha * f.y, alpha * f.z, alpha * f.w);
            *reinterpret_cast<float4 *>(shared + (slice() * BM + row(g)) * B_ROW + column(g)) = scaled;
        }
        __syncthreads();  // all slices' sums are there
        Epilogue rest = epilogue;
        rest.alpha = 1.0f;
        int column = threadIdx.x % (BN / 4) * 4;
        float4 add = add_at(column);
#pragma unroll 4
        for (int row = threadIdx.x / (BN / 4); row < BM; row += THREADS / (BN / 4)) {
            float4 sum = float4();
#pragma unroll
            for (int s = 0; s < SLICES; s++) {
                float4 part = *reinterpret_cast<const float4 *>(shared + (s * BM + row) * B_ROW + column);
                sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
            }
            write(rest, row, column, sum, add);
        }
    }
};

// Steps along K: at least one, so that a product without any K is zero rather than nothing.
template <class Tile> __device__ int steps_along(int k) {
    return max(1, (k + Tile::BK - 1) / Tile::BK);
}

// The first row and column of tile number `at`. Tiles are numbered in bands of BAND rows of tiles, down and then across:
// blocks that run at the same time share rows of A and columns of B in the L2 cache.
template <class Tile> __device__ void place_of_tile(int at, int m, int n, int &first_row, int &first_column) {
    constexpr int BAND = 8;
    int down = (m + Tile::BM - 1) / Tile::BM, across = (n + Tile::BN - 1) / Tile::BN;
    int top = at / (BAND * across) * BAND, height = min(BAND, down - top), in_band = at % (BAND * across);
    first_row = (top + in_band % height) * Tile::BM;
    first_column = in_band / height * Tile::BN;
}
