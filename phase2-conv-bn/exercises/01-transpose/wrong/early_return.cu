// Threads past the right edge of x return at once, but some of them have values of y to write.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ float tile[32][33];
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    if (column >= columns) {
        return;
    }
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned row = blockIdx.y * 32 + k;
        if (row < rows) {
            tile[k][threadIdx.x] = x[row * columns + column];
        }
    }
    __syncthreads();
    unsigned row = blockIdx.y * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned column = blockIdx.x * 32 + k;
        if (row < rows && column < columns) {
            y[column * rows + row] = tile[threadIdx.x][k];
        }
    }
}
