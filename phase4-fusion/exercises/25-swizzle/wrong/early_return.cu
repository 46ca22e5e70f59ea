// Threads beyond the columns leave before the barrier, and do not store their rows.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    extern __shared__ float tile[]; // 32 × 32
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    if (column >= columns) {
        return;
    }
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned row = blockIdx.y * 32 + k;
        if (row < rows && column < columns) {
            tile[k * 32 + (threadIdx.x ^ k)] = x[row * columns + column];
        }
    }
    __syncthreads();
    unsigned row = blockIdx.y * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned column = blockIdx.x * 32 + k;
        if (row < rows && column < columns) {
            y[column * rows + row] = tile[threadIdx.x * 32 + (k ^ threadIdx.x)];
        }
    }
}
