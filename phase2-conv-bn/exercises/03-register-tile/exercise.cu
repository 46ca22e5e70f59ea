// C = A · B, sixteen elements of C per thread. A is m × k, B is k × n, C is m × n, all row-major; the sizes are arbitrary.
//
// Blocks have 16 × 16 threads and compute a tile of 64 × 64 of C. The grid has a block for each tile.

extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k) {
    __shared__ float a_tile[64][16];  // [row][i]
    __shared__ float b_tile[16][64];  // [i][column]
    unsigned x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
    unsigned first_row = blockIdx.y * 64, first_column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (unsigned first = 0; first < k; first += 16) {
        for (unsigned at = thread; at < 64 * 16; at += 256) {
            unsigned row = first_row + at / 16, column = first + at % 16;
            a_tile[at / 16][at % 16] = row < m && column < k ? a[row * k + column] : 0.0f;
        }
        for (unsigned at = thread; at < 16 * 64; at += 256) {
            unsigned row = first + at / 64, column = first_column + at % 64;
            b_tile[at / 64][at % 64] = row < k && column < n ? b[row * n + column] : 0.0f;
        }
        __syncthreads();  // the tiles are complete
        // Your code: the 16 steps along i of these tiles. Read each value that you need from shared memory once.
        __syncthreads();  // all threads are done with them
    }
    // Your code: write the sums to C. Which 16 elements should a thread take, so that a warp writes whole sectors?
}
