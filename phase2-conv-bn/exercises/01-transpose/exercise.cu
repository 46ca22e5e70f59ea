// The transpose of a row-major matrix of rows × columns, in tiles of 32 × 32 through shared memory.
//
// Blocks have 32 × 8 threads: each thread moves four elements of a tile. The grid has a block for each tile of x.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ float tile[32][32];
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned row = blockIdx.y * 32 + k;
        if (row < rows && column < columns) {
            tile[k][threadIdx.x] = x[row * columns + column];
        }
    }
    // Your code: write the tile to y, by rows of y. Then look at the bank conflicts.
}
