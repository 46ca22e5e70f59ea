// Right values, but the rows are moved, not the elements of a row: a column lies in one bank.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    extern __shared__ float tile[]; // 32 × 32
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned row = blockIdx.y * 32 + k;
        if (row < rows && column < columns) {
            tile[(k ^ threadIdx.x) * 32 + threadIdx.x] = x[row * columns + column];
        }
    }
    __syncthreads();
    unsigned row = blockIdx.y * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned column = blockIdx.x * 32 + k;
        if (row < rows && column < columns) {
            y[column * rows + row] = tile[(threadIdx.x ^ k) * 32 + k];
        }
    }
}
