// GEMM with one thread per element of C, and neighbouring lanes in neighbouring rows: C = A · B, with A [M, K], B [K, N] and C [M, N],
// row-major, of any size.
//
//      B                          lane 0 … 31 of a warp: one column of C, 32 rows.
//      │ one value for all         A: 32 values, each K floats from the next: 32 sectors for 128 useful bytes
//     ─┼──────────────             C: 32 values, each N floats from the next: the same
//  A ═ │ C lane 0
//  A ═ │ C lane 1
//
// Limited by passes through the L1 cache: a load of A touches 32 lines, where neighbouring columns would touch one.
// run: gemm // trial: gemm
constexpr int BM = 32, BN = 32;  // rows and columns of C per block, which has as many threads

// ANCHOR: kernel
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    int row = blockIdx.y * BM + threadIdx.x;
    int column = blockIdx.x * BN + threadIdx.y;
    if (row < m && column < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++) {
            sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
        }
        c[(size_t)row * n + column] = sum;
    }
}
// ANCHOR_END: kernel
