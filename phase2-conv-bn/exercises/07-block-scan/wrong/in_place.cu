// Each step adds in shared memory while other threads still read the old sums: one barrier is missing.

extern "C" __global__ void row_scan(const float *x, float *y, unsigned columns) {
    __shared__ float sums[256];
    unsigned column = threadIdx.x;
    bool inside = column < columns;
    sums[column] = inside ? x[blockIdx.x * columns + column] : 0.0f;
    __syncthreads();
    for (unsigned distance = 1; distance < 256; distance *= 2) {
        if (column >= distance) {
            sums[column] += sums[column - distance];
        }
        __syncthreads();
    }
    if (inside) {
        y[blockIdx.x * columns + column] = sums[column];
    }
}
