// Backward of y = relu(x·Wᵀ + bias), with the mask of the ReLU applied while dy is loaded:
//
//     g = dy where y > 0, else 0          [batch, out], never written to memory
//     dx = g·W    [batch, in]      dW = gᵀ·x    [out, in]      dbias = column sums of g    [out]
//
// Both products are C = A·B with a row-major B. They differ in A: for dx it is g itself, whose rows run along K and are
// transposed on the way to shared memory; for dW it is gᵀ, which lies in memory as shared memory wants it.
//
//     a block → BM × BN of C, in steps of BK along K      a warp → 32 rows, 8·TN columns of it
//     a thread → 8 × TN: rows in two groups of 4, 16 apart, columns in groups of 4, 32 apart
//
// The tile of g passes through registers, where the mask costs a comparison; dbias is summed there too, by the blocks of dW's
// first column of tiles, which see all of g between them.
//
// Limited by the arithmetic units where there are tiles for all SMs. What the mask adds is a second stream to load, y beside
// dy, in place of a kernel that reads both and writes g for a third to read.
// run: linear // trial: linear_backward
#include "vectors.cuh"

constexpr int BK = 8;   // step along K
constexpr int TM = 8;   // rows of C per thread
constexpr int WM = 32;  // rows of C per warp
constexpr int PAD = 4;  // floats after each row of a tile; 4, so that rows begin at multiples of 16 bytes

// Shapes of tile. Large ones read less from memory; small ones give a small problem to more SMs.
struct Large {
    static constexpr int BM = 128, BN = 128, TN = 8;  // rows and columns of C per block, columns per thread
    static constexpr int THREADS = BM * BN / (TM * TN);
};
struct Small {
    static constexpr int BM = 64, BN = 64, TN = 4;
    static constexpr int THREADS = BM * BN / (TM * TN);
};

// How A lies in memory.
enum class A {
    ROWS,    // [M, K]: g for dx
    COLUMNS  // [K, M]: g for dW
};

// ANCHOR: mask
// Four of dy and y, on their way from memory.
struct Staged {
    float4 dy, y;

    // dy where y > 0. Called after the multiply-adds of the tiles before, when both have arrived.
    __device__ float4 masked() const {
        return make_float4(y.x > 0.0f ? dy.x : 0.0f, y.y > 0.0f ? dy.y : 0.0f, y.z > 0.0f ? dy.z : 0.0f,
                           y.w > 0.0f ? dy.w : 0.0f);
    }
};

// Without y, dy is masked already.
template <bool ALIGNED> __device__ Staged load_staged(const float *dy, const float *y, size_t row, int at, int length) {
    float4 ones = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    return {load4<ALIGNED>(dy + row, at, length), y ? load4<ALIGNED>(y + row, at, length) : ones};
}
// ANCHOR_END: mask

// C [m, n] = A·B with A made of dy and y. For COLUMNS also bias_gradient [m], the sums of A's rows.
// ANCHOR: kernel
template <A LAYOUT, class Shape, bool ALIGNED>
__device__ void product(const float *dy, const float *y, const float *b, float *c, float *bias_gradient, int m, int n,
                        int k) {
    constexpr int BM = Shape::BM, BN = Shape::BN, TN = Shape::TN, WN = 8 * TN;
    constexpr int THREADS = Shape::THREADS;
    constexpr int A_FOURS = BM * BK / 4 / THREADS;  // 16-byte loads of a thread for a tile of A
    constexpr int B_FOURS = BN * BK / 4 / THREADS;
    __shared__ __align__(16) float a_tiles[2][BK][BM + PAD];  // [which][i][row]
    __shared__ __align__(16) float b_tiles[2][BK][BN + PAD];  // [which][i][column]
    int tiles = max((n + BN - 1) / BN, 1);  // without columns there are sums of rows still
    int first_row = blockIdx.x / tiles * BM;
    int first_column = blockIdx.x % tiles * BN;
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int row_of_thread = warp / (BN / WN) * WM + lane / 8 * 4;
    int column_of_thread = warp % (BN / WN) * WN + lane % 8 * 4;
    bool sums_bias = LAYOUT == A::COLUMNS && first_column == 0;

    Staged a_fours[A_FOURS];
    float4 b_fours[B_FOURS];
    float4 bias_sums[A_FOURS] = {};
    auto load = [&](int first) {
#pragma unroll
        for (int s = 0; s < A_FOURS; s++) {
            int at = threadIdx.x + s * THREADS;
            if (LAYOUT == A::ROWS) {
                int row = first_row + at / (BK / 4);
                a_fours[s] = load_staged<ALIGNED>(dy, y, (size_t)row * k, first + at % (BK / 4) * 4, row < m ? k : 0);
            } else {
                int i = first + at / (BM / 4);
                a_fours[s] = load_staged<ALIGNED>(dy, y, (size_t)i * m, first_row + at % (BM / 4) * 4, i < k ? m : 0);
            }
        }
#pragma unroll
        for (int s = 0; s < B_FOURS; s++) {
            int at = threadIdx.x + s * THREADS;
            int i = first + at / (BN / 4);
            b_fours[s] = load4<ALIGNED>(b + (size_t)i * n, first_column + at % (BN / 4) * 4, i < k ? n : 0);
        }
    };
    auto store = [&](int which) {
#pragma unroll
        for (int s = 0; s < A_FOURS; s++) {
            int at = threadIdx.x + s * THREADS;
            float4 four = a_fours[s].masked();
            if (LAYOUT == A::ROWS) {
                float *corner = &a_tiles[which][at % (BK / 4) * 4][at / (BK / 4)];
                corner[0] = four.x;
                corner[BM + PAD] = four.y;
                corner[2 * (BM + PAD)] = four.z;
                corner[3 * (BM + PAD)] = four.w;
            } else {
                *reinterpret_cast<float4 *>(&a_tiles[which][at / (BM / 4)][at % (BM / 4) * 4]) = four;
                if (sums_bias) {
                    bias_sums[s].x += four.x;
                    bias_sums[s].y += four.y;
                    bias_sums[s].z += four.z;
                    bias_sums[s].w += four.w;
                }
            }
        }
#pragma unroll
        for (int s = 0; s < B_FOURS; s++) {
            int at = threadIdx.x + s * THREADS;
            *reinterpret_cast<float4 *>(&b_tiles[which][at / (BN / 4)][at % (BN / 4) * 4]) = b_fours[s];
        }
    };

    float sums[TM][TN] = {};
    load(0);
    store(0);
    __syncthreads();  // the first tiles are complete
    int which = 0;
    for (int first = 0; first < k; first += BK) {
        bool more = first + BK < k;
        if (more) {
            load(first + BK);
        }
#pragma unroll
        for (int i = 0; i < BK; i++) {
            float rows[TM], columns[TN];
#pragma unroll
            for (int r = 0; r < TM; r += 4) {
                read4(&rows[r], &a_tiles[which][i][row_of_thread + r * 4]);
            }
#pragma unroll
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[s], &b_tiles[which][i][column_of_thread + s * 8]);
            }
#pragma unroll
            for (int r = 0; r < TM; r++) {
#pragma unroll
                for (int s = 0; s < TN; s++) {
                    sums[r][s] += rows[r] * columns[s];
                }
            }
        }
        if (more) {
            store(which ^ 1);
        }
        __syncthreads();  // the next tiles are complete, and all threads are done with these
        which ^= 1;
    }

    Epilogue plain = Epilogue::nothing();
#pragma unroll
    for (int r = 0; r < TM; r++) {
        int row = first_row + row_of_thread + r / 4 * 16 + r % 4;
#pragma unroll
        for (int s = 0; s < TN; s += 4) {
            float4 four = make_float4(sums[r][s], sums[r][s + 1], sums[r][s + 2], sums[r][s + 3]);
            finish4<ALIGNED>(plain, four, nullptr, c + (size_t)row * n, first_column + column_of_thread + s * 8,
                             row < m ? n : 0);
        }
    }

    if (sums_bias) {
        // Each thread has summed every (THREADS / (BM / 4))th row of its four columns of g. The tiles of A are free now.
        constexpr int PARTS = BK;
        static_assert(THREADS * A_FOURS == BM / 4 * PARTS, "each four of a tile of A belongs to one thread");
        float(*parts)[BM + PAD] = a_tiles[0];
#pragma unroll
        for (int s = 0; s < A_FOURS; s++) {
            int at = threadIdx.x + s * THREADS;
            *reinterpret_cast<float4 *>(&parts[at / (BM / 4)][at % (BM / 4) * 4]) = bias_sums[s];
        }
        __syncthreads();
        for (int row = threadIdx.x; row < BM && first_row + row < m; row += THREADS) {
            float sum = 0.0f;
            for (int part = 0; part < PARTS; part++) {
                sum += parts[part][row];
            }
            bias_gradient[first_row + row] = sum;
        }
    }
}
// ANCHOR_END: kernel

// dx: [batch, in], from dy and y [batch, out] and W [out, in].
#define INPUT_KERNEL(name, Shape, aligned)                                                                              \
    extern "C" __global__ void __launch_bounds__(Shape::THREADS, aligned ? 2 : 1)                                       \
        name(const float *__restrict__ dy, const float *__restrict__ y, const float *__restrict__ weight,               \
             float *__restrict__ dx, int batch, int in, int out) {                                                      \
        product<A::ROWS, Shape, aligned>(dy, y, weight, dx, nullptr, batch, in, out);                                   \
    }

// dW: [out, in] and dbias: [out], from dy and y [batch, out] and x [batch, in].
#define WEIGHT_KERNEL(name, Shape, aligned)                                                                             \
    extern "C" __global__ void __launch_bounds__(Shape::THREADS, aligned ? 2 : 1)                                       \
        name(const float *__restrict__ dy, const float *__restrict__ y, const float *__restrict__ x,                    \
             float *__restrict__ dweight, float *__restrict__ dbias, int batch, int in, int out) {                      \
        product<A::COLUMNS, Shape, aligned>(dy, y, x, dweight, dbias, out, in, batch);                                  \
    }

INPUT_KERNEL(backward_input_128, Large, true)
INPUT_KERNEL(backward_input_128_any, Large, false)
INPUT_KERNEL(backward_input_64, Small, true)
INPUT_KERNEL(backward_input_64_any, Small, false)
WEIGHT_KERNEL(backward_weight_128, Large, true)
WEIGHT_KERNEL(backward_weight_128_any, Large, false)
WEIGHT_KERNEL(backward_weight_64, Small, true)
WEIGHT_KERNEL(backward_weight_64_any, Small, false)

// The mask by itself, for a backward pass made of separate kernels: g = dy where y > 0, else 0. One thread per element.
extern "C" __global__ void mask(const float *dy, const float *y, float *g, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        g[i] = y[i] > 0.0f ? dy[i] : 0.0f;
    }
}
