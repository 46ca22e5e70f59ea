// C = A · B with one thread per element of C, and nothing else: A [M, K], B [K, N] and C [M, N], row-major, of any size.
//
//                 column
//              B    │ K values, each N floats from the next
//                   │
//     row ═════════ C        a row of A times a column of B, added up in a register
//      A, K values
//
// The kernel before the ladder: step 1 takes B in two layouts and may scale, add and cut off what it stores.
//
// Limited by loads: two for each multiply-add. Memory is read as often as the loop turns, unless a cache helps.
// run: test gemm_plain // trial: gemm_plain
// ANCHOR: kernel
extern "C" __global__ void gemm_plain(const float *a, const float *b, float *c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && column < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++) {
            sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
        }
        c[(size_t)row * n + column] = sum;
    }
}
// ANCHOR_END: kernel
