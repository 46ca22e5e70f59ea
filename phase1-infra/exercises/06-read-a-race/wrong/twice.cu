// Right values, but each value is loaded twice.

extern "C" __global__ void difference(const float *x, float *y, unsigned columns) {
    unsigned column = threadIdx.x;
    unsigned i = blockIdx.x * columns + column;
    if (column < columns) {
        float left = column > 0 ? x[i - 1] : 0.0f;
        y[i] = x[i] - left;
    }
}
