// GEMM with one thread per element of C, and neighbouring lanes in neighbouring columns: C = A · B, with A [M, K], B [K, N] and C [M, N],
// row-major, of any size.
//
//      B                          lane 0 … 31 of a warp: one row of C, 32 columns.
//      ║║║║ 32 neighbours          A: one value for all, one sector
//     ─┼──────────────             B: 32 neighbours, 4 sectors, all of them used
//  A ─ │ C C C C …                 C: 32 neighbours, 4 sectors
//
// Limited by loads: two for each multiply-add, and only the cache lets a value that one thread fetches serve another.
// run: gemm // trial: gemm
constexpr int BM = 32, BN = 32;  // rows and columns of C per block, which has as many threads

// ANCHOR: kernel
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    int row = blockIdx.y * BM + threadIdx.y;
    int column = blockIdx.x * BN + threadIdx.x;
    if (row < m && column < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++) {
            sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
        }
        c[(size_t)row * n + column] = sum;
    }
}
// ANCHOR_END: kernel
