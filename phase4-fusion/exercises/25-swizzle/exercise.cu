// The transpose of a row-major matrix of rows × columns, in tiles of 32 × 32. Shared memory has room for 32 × 32 floats and no more.
//
// Blocks have 32 × 8 threads: each thread moves four elements of a tile. The grid has a block for each tile of x.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    extern __shared__ float tile[]; // 32 × 32. Your code: where does element (row, column) of the tile lie?
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned row = blockIdx.y * 32 + k;
        if (row < rows && column < columns) {
            tile[k * 32 + threadIdx.x] = x[row * columns + column];
        }
    }
    __syncthreads();
    unsigned row = blockIdx.y * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned column = blockIdx.x * 32 + k;
        if (row < rows && column < columns) {
            y[column * rows + row] = tile[threadIdx.x * 32 + k];
        }
    }
}
