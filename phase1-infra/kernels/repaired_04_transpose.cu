// The transpose of a row-major matrix, tile by tile through shared memory: both matrices are accessed by rows.
// run: broken 04 --repaired
// ANCHOR: kernel
// Blocks of 32 × 32 threads.
extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    // ANCHOR: repair
    __shared__ float tile[32][33]; // one unused column: each row begins one bank further on
    // ANCHOR_END: repair
    unsigned row = blockIdx.y * 32 + threadIdx.y; // of x
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    if (row < rows && column < columns) {
        tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
    }
    __syncthreads();
    row = blockIdx.x * 32 + threadIdx.y; // of y
    column = blockIdx.y * 32 + threadIdx.x;
    if (row < columns && column < rows) {
        y[row * rows + column] = tile[threadIdx.x][threadIdx.y];
    }
}
// ANCHOR_END: kernel
