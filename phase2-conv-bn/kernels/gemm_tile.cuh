// A block's tile of A·B, for the last two steps of the ladder: all they know, with the sizes for parameters.
//
//     global ──cp.async──▶ shared, STAGES steps of BK deep ──16 bytes──▶ registers, two values of i ──▶ TM · TN sums a thread
//
// No value passes through a register on its way to shared memory: copies of 4 bytes transpose A, and B if it is given
// transposed. The copies for a later step are spread over the multiply-adds of this one, and the first values of the next
// step are read before this one ends, so that the only thing left to wait for is the barrier.
//
// Where a tile has too few warps to keep a multiprocessor busy, it has them several times, as slices: each slice has all of the
// tile's sums and a share of every step's values of i, and they add their sums in shared memory at the end.
#pragma once

#include "cp_async.cuh"
#include "gemm.cuh"
#include "vectors.cuh"

// FULL says that tiles lie inside A, B and C entirely, rows begin at multiples of 16 bytes, and K is a multiple of BK.
template <Layout LAYOUT, bool FULL, int BM_, int BN_, int BK, int WM, int WN, int SLICES, int STAGES> struct Tile {
    static constexpr int BM = BM_, BN = BN_, STEP = BK;         // rows and columns of C a block, values of i a step
    static constexpr int LANES_Y = 4, LANES_X = 8;              // a warp's lanes, down and across its WM × WN
    static constexpr int TM = WM / LANES_Y, TN = WN / LANES_X;  // rows and columns of C a thread, in groups of 4
    static constexpr int SLICE = BM / WM * (BN / WN), WARPS = SLICES * SLICE, THREADS = 32 * WARPS;
    static constexpr int DEPTH = BK / SLICES;                   // values of i a step and slice
    // A warp's transposing copies are 8 values of i (a sector) for 4 rows: with 4 floats behind each row, to 32 banks.
    static constexpr int A_ROW = BM + 4, B_ROW = BN + 4;
    static constexpr int A_STAGE = BK * A_ROW, B_STAGE = BK * B_ROW;
    static constexpr int SPANS = BK / 8, APART = WARPS / SPANS * 4;  // rows between a thread's transposing copies
    static constexpr bool B_BY_16 = LAYOUT == ROW_MAJOR && FULL;
    static constexpr int B_ACROSS = B_BY_16 ? BN / 4 : BN;      // threads that copy one row of B, if it is row-major
    static constexpr int B_APART = LAYOUT == ROW_MAJOR ? THREADS / B_ACROSS : APART;
    static constexpr int A_COPIES = BM * BK / THREADS, COPIES = A_COPIES + BN * BK / (B_BY_16 ? 4 : 1) / THREADS;
    static constexpr int COPIES_EACH = (COPIES + DEPTH - 2) / (DEPTH - 1);  // for each i of a step but the last
    static constexpr int GROUPS = TM * TN / 4;                  // of four sums that are neighbours in a row
    static_assert(WARPS % SPANS == 0 && BM % APART == 0 && TM % 4 == 0 && TN % 4 == 0 && BK % 8 == 0, "");
    static_assert(DEPTH % 2 == 0, "the two sets of registers change places within a step");
    static_assert(LAYOUT == TRANSPOSED ? BN % APART == 0 : THREADS % B_ACROSS == 0, "");
    static_assert(SLICES * BM * B_ROW <= STAGES * (A_STAGE + B_STAGE), "the slices' sums take the place of the steps");

    float sums[TM][TN];

    __device__ static int lane() { return threadIdx.x % 32; }
    __device__ static int warp() { return threadIdx.x / 32; }
    __device__ static int slice() { return warp() / SLICE; }
    // The row and column in the tile of this thread's group `g` of four sums.
    __device__ static int row(int g) {
        int i = g / (TN / 4);
        return warp() % SLICE / (BN / WN) * WM + lane() / LANES_X * 4 + i / 4 * 4 * LANES_Y + i % 4;
    }
    __device__ static int column(int g) {
        return warp() % (BN / WN) * WN + (lane() % LANES_X + g % (TN / 4) * LANES_X) * 4;
    }
    __device__ float4 four(int g) const {
        const float *s = &sums[g / (TN / 4)][g % (TN / 4) * 4];
        return make_float4(s[0], s[1], s[2], s[3]);
    }

    // sums = A[first_row …, BK·first …] · B[BK·first …, first_column …] over `steps` steps of BK, at least one; of a slice its
    // share. All threads of the block come; none needs `shared` any more when one returns.
    // ANCHOR: multiply
    __device__ void multiply(float *shared, const float *a, const float *b, int m, int n, int k, int first_row,
                             int first_column, int first, int steps) {
        float *a_stages = shared, *b_stages = shared + STAGES * A_STAGE;
        // This thread's place in transposing copies, and in copies along a row of B.
        int span = warp() % SPANS * 8 + lane() % 8, across = warp() / SPANS * 4 + lane() / 8;
        int down = threadIdx.x / B_ACROSS, along = threadIdx.x % B_ACROSS * (B_BY_16 ? 4 : 1);
        int a_i = BK * first + span, b_i = LAYOUT == ROW_MAJOR ? BK * first + down : a_i;
        const float *a_next = a + (size_t)(first_row + across) * k + a_i, *a_from = a_next;
        const float *b_next = b + place_in_b<LAYOUT>(b_i, first_column + (LAYOUT == ROW_MAJOR ? along : across), n, k);
        const float *b_from = b_next;
        const size_t a_apart = (size_t)APART * k, b_apart = (size_t)B_APART * (LAYOUT == ROW_MAJOR ? n : k);
        float *a_to = a_stages, *b_to = b_stages;
        auto begin_step = [&](int stage) {
            a_from = a_next;
            b_from = b_next;
            a_next += BK;
            b_next += LAYOUT == ROW_MAJOR ? (size_t)BK * n : BK;
            a_to = a_stages + stage * A_STAGE + span * A_ROW + across;
            b_to = b_stages + stage * B_STAGE + (LAYOUT == ROW_MAJOR ? down * B_ROW + along : span * B_ROW + across);
        };
        // Copy number `c` of this thread's COPIES for a step, in order.
        auto copy = [&](int c) {
            if (c < A_COPIES) {
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
                    __syncthreads();  // the next step's values are there, and nobody needs the free stage's any more
                    // After the last step there is no next: what is read once more is not used.
                    a_now = a_rows + stage * A_STAGE;
                    b_now = b_columns + stage * B_STAGE;
                    if (step + 1 == steps) {
                        a_now = a_rows;
                        b_now = b_columns;
                    }
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
        __syncthreads();  // nobody needs shared memory any more
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
        if (SLICES == 1) {
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                finish_group(g, four(g), epilogue, bias, c, m, n, first_row, first_column);
            }
            return;
        }
        // Times alpha already here: stored as they are, the sums would have to be in registers four by four all along.
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            float4 f = four(g);
            float4 scaled = make_float4(epilogue.alpha * f.x, epilogue.alpha * f.y, epilogue.alpha * f.z, epilogue.alpha * f.w);
            *reinterpret_cast<float4 *>(shared + (slice() * BM + row(g)) * B_ROW + column(g)) = scaled;
        }
        __syncthreads();  // all slices' sums are there
        Epilogue rest = epilogue;
        rest.alpha = 1.0f;
        int at = threadIdx.x % (BN / 4) * 4;
#pragma unroll 4
        for (int r = threadIdx.x / (BN / 4); r < BM; r += THREADS / (BN / 4)) {
            float4 sum = float4();
#pragma unroll
            for (int s = 0; s < SLICES; s++) {
                float4 part = *reinterpret_cast<const float4 *>(shared + (s * BM + r) * B_ROW + at);
                sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
            }
            float *to = c + (size_t)(first_row + r) * n;
            finish4<FULL>(rest, sum, bias, to, first_column + at, FULL || first_row + r < m ? n : 0);
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
