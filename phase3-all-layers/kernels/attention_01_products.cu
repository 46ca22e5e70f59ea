// The two products of attention, for each image and head: scores = Q·Kᵀ / √d, and out = P·V with P = softmax(scores).
//
//     qkv [B, T, 3·C]                                        scores [B · heads, T, T]          out [B, T, C]
//     token t: │ q of head 0 │ q of head 1 │ … │ k … │ v … │           d = C / heads
//
// Q, K and V of a head are columns of qkv, so no data is rearranged before or after: a matrix is given by its first
// value and its row stride. 32-byte pieces of rows are loaded into registers while the previous tile is multiplied,
// then stored, transposed where necessary, in the other half of shared memory: one barrier per step. A thread has 8 × 8
// sums.
//
// Scores: K = d is small, and 4 bytes are written per 2·d operations. Out: N = d is small, so tiles are narrow. Tiles
// of 64 × 64 are for short sequences, for which larger tiles would leave SMs idle.
//
// Limited by memory traffic: the scores, T² · heads · B floats, are written or read four times by three kernels. Flash
// attention (phase 4) never writes them.
// run: test sequence // trial: attention
#include "../../phase2-conv-bn/kernels/fetch.cuh"

constexpr unsigned BK = 8;  // values of i per step: a 32-byte sector of a row
constexpr unsigned PAD = 4;  // after each row in shared memory, so that a warp's transposing stores hit 32 different banks

// Strides from one matrix of a batch to the next, and from row to row, in floats. Offsets within one matrix fit in 32
// bits.
struct Strides {
    unsigned long long image, head, row;

    __device__ size_t first(unsigned matrix, unsigned heads) const {
        return matrix / heads * image + matrix % heads * head;
    }
};
struct Operands {
    Strides a, b, c;
};

// Four neighbours, the first `inside` of them valid, zeros for the others. ALIGNED: either all four are valid or none.
template <bool ALIGNED> __device__ float4 fetch_some(const float *from, unsigned inside) {
    if (ALIGNED) {
        return fetch4(from, inside > 0);
    }
    return make_float4(fetch(from, inside > 0), fetch(from + 1, inside > 1), fetch(from + 2, inside > 2),
                       fetch(from + 3, inside > 3));
}

// How many of a row's `length` values remain from `at` on.
__device__ inline unsigned left_from(unsigned at, unsigned length) {
    return at < length ? length - at : 0;
}

__device__ inline void read4(float *to, const float *from) {
    float4 four = *reinterpret_cast<const float4 *>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
}

// C = alpha · A·B with A [m, k], C [m, n], and B [k, n] or, TRANSPOSED, [n, k]. m, n and k are below 2³¹. ALIGNED says that rows
// begin at multiples of 16 bytes and that n and k are multiples of 4.
// ANCHOR: kernel
template <unsigned BM, unsigned BN, bool TRANSPOSED, bool ALIGNED>
__device__ void multiply(const float *a, const float *b, float *c, const Operands &strides, unsigned heads, unsigned m,
                         unsigned n, unsigned k, float alpha) {
    constexpr unsigned THREADS = BM * BN / 64, A_LOADS = BM * BK / 4 / THREADS, B_LOADS = BN * BK / 4 / THREADS;
    static_assert(BM % 32 == 0 && BN % 64 == 0 && A_LOADS * THREADS * 4 == BM * BK && B_LOADS * THREADS * 4 == BN * BK, "");
    __shared__ __align__(16) float a_tiles[2][BK][BM + PAD], b_tiles[2][BK][BN + PAD];  // [half][i][row or column]
    unsigned across = (n + BN - 1) / BN, tiles = (m + BM - 1) / BM * across;
    unsigned matrix = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    unsigned first_row = tile / across * BM, first_column = tile % across * BN;
    a += strides.a.first(matrix, heads);
    b += strides.b.first(matrix, heads);
    c += strides.c.first(matrix, heads);

    // Two threads load the 8 values of a row; for B, if it is not transposed, BN / 4 threads load the values of BN
    // columns. Rows and columns past the last of C repeat it, and their results are not stored. Values past the last i
    // are zeros.
    constexpr unsigned APART = THREADS / 2, B_THREADS = TRANSPOSED ? 2 : BN / 4, B_APART = THREADS / B_THREADS;
    unsigned span = threadIdx.x % 2 * 4, down = threadIdx.x / 2;
    unsigned b_along = threadIdx.x % B_THREADS * 4, b_down = threadIdx.x / B_THREADS;
    unsigned b_inside = left_from(first_column + b_along, n);  // if it is not transposed
    unsigned a_row = strides.a.row, b_row = strides.b.row, a_at[A_LOADS], b_at[B_LOADS];  // offsets in A and B
#pragma unroll
    for (unsigned j = 0; j < A_LOADS; j++) {
        a_at[j] = min(first_row + down + j * APART, m - 1) * a_row + span;
    }
#pragma unroll
    for (unsigned j = 0; j < B_LOADS; j++) {
        unsigned row = b_down + j * B_APART;
        b_at[j] = TRANSPOSED ? min(first_column + row, n - 1) * b_row + b_along : row * b_row + first_column + b_along;
    }
    float4 a_next[A_LOADS], b_next[B_LOADS];
    auto fetch_step = [&](unsigned first) {
        unsigned inside = left_from(first + span, k);
#pragma unroll
        for (unsigned j = 0; j < A_LOADS; j++) {
            a_next[j] = fetch_some<ALIGNED>(a + a_at[j], inside);
            a_at[j] += BK;
        }
#pragma unroll
        for (unsigned j = 0; j < B_LOADS; j++) {
            unsigned of_row = first + b_down + j * B_APART < k ? b_inside : 0;
            b_next[j] = fetch_some<ALIGNED>(b + b_at[j], TRANSPOSED ? inside : of_row);
            b_at[j] += TRANSPOSED ? BK : BK * b_row;
        }
    };
    auto put_transposed = [](float *to, unsigned apart, float4 four) {
        to[0] = four.x;
        to[apart] = four.y;
        to[2 * apart] = four.z;
        to[3 * apart] = four.w;
    };
    auto put_step = [&](unsigned half) {
#pragma unroll
        for (unsigned j = 0; j < A_LOADS; j++) {
            put_transposed(&a_tiles[half][span][down + j * APART], BM + PAD, a_next[j]);
        }
#pragma unroll
        for (unsigned j = 0; j < B_LOADS; j++) {
            if (TRANSPOSED) {
                put_transposed(&b_tiles[half][b_along][b_down + j * B_APART], BN + PAD, b_next[j]);
            } else {
                *reinterpret_cast<float4 *>(&b_tiles[half][b_down + j * B_APART][b_along]) = b_next[j];
            }
        }
    };

    // A warp computes 32 × 64 of C: 4 lanes down and 8 across, each with two groups of 4 rows and two of 4 columns.
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned y = warp / (BN / 64) * 32 + lane / 8 * 4, x = warp % (BN / 64) * 64 + lane % 8 * 4;
    float sums[8][8] = {};
    fetch_step(0);
    put_step(0);
    __syncthreads();  // the first step's values are complete
    unsigned half = 0;
    for (unsigned first = 0; first < k; first += BK) {
        fetch_step(first + BK);  // zeros past the last
#pragma unroll
        for (unsigned i = 0; i < BK; i++) {
            float rows[8], columns[8];
            read4(rows, &a_tiles[half][i][y]);
            read4(rows + 4, &a_tiles[half][i][y + 16]);
            read4(columns, &b_tiles[half][i][x]);
            read4(columns + 4, &b_tiles[half][i][x + 32]);
#pragma unroll
            for (unsigned r = 0; r < 8; r++) {
#pragma unroll
                for (unsigned s = 0; s < 8; s++) {
                    sums[r][s] = fmaf(rows[r], columns[s], sums[r][s]);
                }
            }
        }
        half ^= 1;
        put_step(half);
        __syncthreads();  // the next step's values are complete, and this step's are no longer needed
    }

#pragma unroll
    for (unsigned r = 0; r < 8; r++) {
        unsigned row = first_row + y + r % 4 + r / 4 * 16;
#pragma unroll
        for (unsigned s = 0; s < 8; s += 4) {
            unsigned column = first_column + x + s / 4 * 32;
            float *to = c + row * strides.c.row + column;
            if (ALIGNED && row < m && column < n) {
                *reinterpret_cast<float4 *>(to) = make_float4(alpha * sums[r][s], alpha * sums[r][s + 1],
                                                              alpha * sums[r][s + 2], alpha * sums[r][s + 3]);
            }
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                if (!ALIGNED && row < m && column + i < n) {
                    to[i] = alpha * sums[r][s + i];
                }
            }
        }
    }
}
// ANCHOR_END: kernel

// 128 registers per thread: 512 threads per SM.
#define PRODUCT(name, bm, bn, transposed, aligned)                                                                     \
    extern "C" __global__ void __launch_bounds__(bm *bn / 64, 512 / (bm * bn / 64))                                    \
        name(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, Operands strides,        \
             unsigned heads, unsigned m, unsigned n, unsigned k, float alpha) {                                        \
        multiply<bm, bn, transposed, aligned>(a, b, c, strides, heads, m, n, k, alpha);                                \
    }

PRODUCT(scores_128x128, 128, 128, true, true)
PRODUCT(scores_128x128_any, 128, 128, true, false)
PRODUCT(scores_64x64, 64, 64, true, true)
PRODUCT(scores_64x64_any, 64, 64, true, false)
PRODUCT(values_128x64, 128, 64, false, true)
PRODUCT(values_128x64_any, 128, 64, false, false)
PRODUCT(values_64x64, 64, 64, false, true)
PRODUCT(values_64x64_any, 64, 64, false, false)
