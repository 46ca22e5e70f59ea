// GEMM with one thread per element of C, and neighbouring lanes in neighbouring columns:
//
//     C = max(floor, alpha·A·B + bias + beta·C)        A [M, K], C [M, N] row-major
//                                                      B [K, N] row-major (gemm_nn), or its transpose [N, K] (gemm_nt)
//
//      B                          lane 0 … 31 of a warp: one row of C, 32 columns.
//      ║║║║ 32 neighbours          A: one value for all, one sector
//     ─┼──────────────             B: 32 neighbours, 4 sectors, all of them used (given transposed: still 32 sectors)
//  A ─ │ C C C C …                 C: 32 neighbours, 4 sectors
//
// Blocks are numbered along the rows of tiles, in one dimension: a grid may be 2³¹ − 1 blocks wide, but only 65,535 high.
//
// Limited by loads: two for each multiply-add, and only the cache lets a value that one thread fetches serve another.
// run: gemm // trial: gemm
constexpr int BM = 32, BN = 32;  // rows and columns of C per block
constexpr int THREADS = BM * BN;

// What is applied to each sum before it is stored.
struct Epilogue {
    float alpha;
    float beta;   // 0: C is not read, so it may hold anything
    float floor;  // 0 for ReLU, −∞ for none
};

// bias: [N], or null for none.
// ANCHOR: kernel
template <bool TRANSPOSED>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    int tiles = (n + BN - 1) / BN;  // in a row of tiles
    int row = blockIdx.x / tiles * BM + threadIdx.x / BN;
    int column = blockIdx.x % tiles * BN + threadIdx.x % BN;
    if (row >= m || column >= n) {
        return;
    }
    float sum = 0.0f;
    for (int i = 0; i < k; i++) {
        sum += a[(size_t)row * k + i] * b[TRANSPOSED ? (size_t)column * k + i : (size_t)i * n + column];
    }
    float *place = c + (size_t)row * n + column;
    float old = epilogue.beta != 0.0f ? *place : 0.0f;
    float value = epilogue.alpha * sum + (bias ? bias[column] : 0.0f) + epilogue.beta * old;
    *place = value < epilogue.floor ? epilogue.floor : value;  // not fmaxf: that would turn NaN into the floor
}
// ANCHOR_END: kernel

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_nn(const float *__restrict__ a, const float *__restrict__ b, const float *__restrict__ bias,
            float *__restrict__ c, int m, int n, int k, Epilogue epilogue) {
    gemm<false>(a, b, bias, c, m, n, k, epilogue);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_nt(const float *__restrict__ a, const float *__restrict__ b, const float *__restrict__ bias,
            float *__restrict__ c, int m, int n, int k, Epilogue epilogue) {
    gemm<true>(a, b, bias, c, m, n, k, epilogue);
}
