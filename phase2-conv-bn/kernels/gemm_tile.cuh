// A block's tile of A·B, for the last two steps of the ladder: all they know, with the sizes for parameters.
//
//     global ──cp.async──▶ shared, STAGES steps of BK deep ──16 bytes──▶ registers, two values of i ──▶ TM · TN sums a thread
//
// No value passes through a register on its way to shared memory: copies of 4 bytes transpose A, and B if it is given
// transposed. The copies for a later step are spread over the multiply-adds of this one, and the first values of the next
// step are read before this one ends, so that the only thing left to wait for is the barrier.
#pragma once

#include "cp_async.cuh"
#include "gemm.cuh"
#include "vectors.cuh"

// FULL says that tiles lie inside A, B and C entirely, rows begin at multiples of 16 bytes, and K is a multiple of BK.
template <Layout LAYOUT, bool FULL, int BM_, int BN_, int BK, int WM, int WN, int LANES_Y, int STAGES, bool BY_ROWS>
struct Tile {
    static constexpr int BM = BM_, BN = BN_, STEP = BK;         // rows and columns of C a block, values of i a step
    static constexpr int LANES_X = 32 / LANES_Y;              // a warp's lanes, down and across its WM × WN
    static constexpr int TM = WM / LANES_Y, TN = WN / LANES_X;  // rows and columns of C a thread, in groups of 4
    static constexpr int WARPS = BM / WM * (BN / WN), THREADS = 32 * WARPS;
    // A warp's transposing copies are 8 values of i (a sector) for 4 rows: with 4 floats behind each row, to 32 banks.
    static constexpr int A_ROW = BM + 4, B_ROW = BN + 4;
    static constexpr int SHARED_FLOATS = STAGES * BK * (A_ROW + B_ROW);
    static constexpr int SPANS = BK / 8, APART = WARPS / SPANS * 4;  // rows between a thread's transposing copies
    static constexpr bool B_BY_16 = LAYOUT == ROW_MAJOR && FULL;
    static constexpr int B_ACROSS = B_BY_16 ? BN / 4 : BN;     // threads that copy one row of B, if it is row-major
    static constexpr int A_COPIES = BM * BK / THREADS, COPIES = A_COPIES + BN * BK / (B_BY_16 ? 4 : 1) / THREADS;
    static constexpr int COPIES_EACH = (COPIES + BK - 2) / (BK - 1);  // for each i of a step but the last
    static constexpr int GROUPS = TM * TN / 4;                 // of four sums that are neighbours in a row
    static_assert(WARPS % SPANS == 0 && TM % 4 == 0 && TN % 4 == 0 && BK % 8 == 0, "");
    static_assert(LAYOUT == TRANSPOSED || THREADS % B_ACROSS == 0 || B_ACROSS % THREADS == 0, "");
    static_assert(LAYOUT == TRANSPOSED || THREADS >= B_ACROSS, "");

    float sums[TM][TN];

    __device__ static int lane() { return threadIdx.x % 32; }
    __device__ static int warp() { return threadIdx.x / 32; }
    // The row and column in the tile of this thread's group `g` of four sums.
    __device__ static int row(int g) {
        int i = g / (TN / 4);
        return warp() / (BN / WN) * WM + lane() / LANES_X * 4 + i / 4 * 4 * LANES_Y + i % 4;
    }
    __device__ static int column(int g) { return warp() % (BN / WN) * WN + (lane() % LANES_X + g % (TN / 4) * LANES_X) * 4; }
    __device__ float4 four(int g) const {
        const float *s = &sums[g / (TN / 4)][g % (TN / 4) * 4];
        return make_float4(s[0], s[1], s[2], s[3]);
    }

    // sums = A[first_row …, BK·first …] · B[BK·first …, first_column …] over `steps` steps of BK, at least one. All threads
    // of the block come; none needs `shared`, of SHARED_FLOATS, any more when one returns.
    // ANCHOR: multiply
    __device__ void multiply(float *shared, const float *a, const float *b, int m, int n, int k, int first_row,
                             int first_column, int first, int steps) {
        float *a_stages = shared, *b_stages = shared + STAGES * BK * A_ROW;
        // This thread's place in transposing copies, and in copies along a row of B.
        int span = warp() % SPANS * 8 + lane() % 8, across = warp() / SPANS * 4 + lane() / 8;
        int down = threadIdx.x / B_ACROSS, along = threadIdx.x % B_ACROSS * (B_BY_16 ? 4 : 1);
        int a_i = BK * first + span, b_i = LAYOUT == ROW_MAJOR ? BK * first + down : a_i;
        const float *a_next = a + (size_t)(first_row + across) * k + a_i, *a_from = a_next;
        const float *b_next = b + place_in_b<LAYOUT>(b_i, first_column + (LAYOUT == ROW_MAJOR ? along : across), n, k);
        const float *b_from = b_next;
        const size_t a_apart = (size_t)APART * k;
        const size_t b_apart = LAYOUT == ROW_MAJOR ? (size_t)(THREADS / B_ACROSS) * n : a_apart;
        auto begin_step = [&] {
            a_from = a_next;
            b_from = b_next;
            a_next += BK;
            b_next += LAYOUT == ROW_MAJOR ? (size_t)BK * n : BK;
        };
        // Copy number `c` of this thread's COPIES for a step, in order.
        auto copy = [&](int stage, int c) {
            if (c < A_COPIES) {
                bool inside = first_row + across + c * APART < m && a_i < k;
                float *to = a_stages + (stage * BK + span) * A_ROW + across + c * APART;
                FULL ? copy4(to, a_from) : copy4(to, inside ? a_from : a, inside);
                a_from += a_apart;
            } else if (c < COPIES) {
                c -= A_COPIES;
                if (LAYOUT == TRANSPOSED) {
                    bool inside = first_column + across + c * APART < n && b_i < k;
                    float *to = b_stages + (stage * BK + span) * B_ROW + across + c * APART;
                    FULL ? copy4(to, b_from) : copy4(to, inside ? b_from : b, inside);
                } else {
                    int i = down + c * (THREADS / B_ACROSS);
                    bool inside = first_column + along < n && b_i - down + i < k;
                    float *to = b_stages + (stage * BK + i) * B_ROW + along;
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
                begin_step();
#pragma unroll
                for (int c = 0; c < COPIES; c++) {
                    copy(stage, c);
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
        const float *a_rows = a_stages + row(0), *b_columns = b_stages + column(0);
        auto read = [&](int stage, int i, int to) {
#pragma unroll
            for (int r = 0; r < TM; r += 4) {
                read4(&rows[to][r], a_rows + (stage * BK + i) * A_ROW + r * LANES_Y);
            }
#pragma unroll
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[to][s], b_columns + (stage * BK + i) * B_ROW + s * LANES_X);
            }
        };
        copy_groups_arrived<STAGES - 2>();
        __syncthreads();  // the first step's values are there
        read(0, 0, 0);
        int stage = 0, free_stage = STAGES - 1;
        for (int step = 0; step < steps; step++) {
            bool more = step + STAGES - 1 < steps;
            int next_stage = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
            for (int i = 0; i < BK; i++) {
                if (i < BK - 1) {
                    read(stage, i + 1, (i + 1) % 2);
                    if (more) {
                        if (i == 0) {
                            begin_step();
                        }
#pragma unroll
                        for (int c = i * COPIES_EACH; c < (i + 1) * COPIES_EACH; c++) {
                            copy(free_stage, c);
                        }
                    }
                    if (i == BK - 2) {
                        end_step();
                    }
                } else {
                    copy_groups_arrived<STAGES - 2>();
                    __syncthreads();  // the next step's values are there, and nobody needs the free stage's any more
                    // After the last step there is no next: what is read once more is not used.
                    read(step + 1 < steps ? next_stage : stage, 0, 0);
                }
#pragma unroll
                for (int at = 0; at < TM * TN; at++) {
                    // Back and forth, so that each multiply-add shares an operand with the one before.
                    int r = BY_ROWS ? at / TN : at / TM % 2 ? TM - 1 - at % TM : at % TM;
                    int s = BY_ROWS ? (r % 2 ? TN - 1 - at % TN : at % TN) : at / TM;
                    sums[r][s] = fmaf(rows[i % 2][r], columns[i % 2][s], sums[r][s]);
                }
            }
            stage = next_stage;
            free_stage = free_stage + 1 == STAGES ? 0 : free_stage + 1;
        }
        __syncthreads();  // nobody needs shared memory any more
    }
    // ANCHOR_END: multiply

    // Finishes the sums of group `g` and writes those that lie inside C.
    __device__ static void finish_group(int g, float4 sums, const Epilogue &epilogue, const float *bias, float *c, int m,
                                        int n, int first_row, int first_column) {
        int at = first_row + row(g);
        finish4<FULL>(epilogue, sums, bias, c + (size_t)at * n, first_column + column(g), FULL || at < m ? n : 0);
    }

    __device__ void finish(const Epilogue &epilogue, const float *bias, float *c, int m, int n, int first_row,
                           int first_column) const {
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            finish_group(g, four(g), epilogue, bias, c, m, n, first_row, first_column);
        }
    }
};

// Steps along K: at least one, so that a product without any K is zero rather than nothing.
template <class Tile> __device__ int steps_along(int k) {
    return max(1, (k + Tile::STEP - 1) / Tile::STEP);
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
