// Right values, but whole quads are moved, as a swizzle for loads of 16 bytes does.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    extern __shared__ float tile[]; // 32 × 32
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned row = blockIdx.y * 32 + k;
        if (row < rows && column < columns) {
            tile[k * 32 + (threadIdx.x ^ k % 8 * 4)] = x[row * columns + column];
        }
    }
    __syncthreads();
    unsigned row = blockIdx.y * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned column = blockIdx.x * 32 + k;
        if (row < rows && column < columns) {
            y[column * rows + row] = tile[threadIdx.x * 32 + (k ^ threadIdx.x % 8 * 4)];
        }
    }
}
