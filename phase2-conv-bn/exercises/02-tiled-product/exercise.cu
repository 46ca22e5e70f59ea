// C = A · B, through tiles in shared memory. A is m × k, B is k × n, C is m × n, all row-major, of any size.
//
// Blocks have 32 × 32 threads, and each thread computes one element of C. The grid has a block for each tile of 32 × 32.

extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k) {
    __shared__ float a_tile[32][32];  // [row][i]
    __shared__ float b_tile[32][32];  // [i][column]
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned row = blockIdx.y * 32 + y;
    unsigned column = blockIdx.x * 32 + x;
    float sum = 0.0f;
    for (unsigned first = 0; first < k; first += 32) {
        // Your code: fetch columns first to first + 31 of A and the same rows of B into the tiles, one value of each per thread.
        // What goes into a tile where it reaches past the edge? Then add the products of this step to the sum.
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}
