// Right values, but the first lane of each warp gets its neighbour by a second load.

extern "C" __global__ void difference(const float *x, float *y, unsigned columns) {
    unsigned column = threadIdx.x;
    unsigned i = blockIdx.x * columns + column;
    float value = column < columns ? x[i] : 0.0f;
    float left = __shfl_up_sync(0xffffffff, value, 1);
    if (column % 32 == 0 && column < columns) {
        left = column > 0 ? x[i - 1] : 0.0f;
    }
    if (column < columns) {
        y[i] = value - left;
    }
}
