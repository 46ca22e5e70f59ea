// The warps beyond the last row read and write, too.

extern "C" __global__ void softmax(const float *x, float *y, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.y;
    x += row * columns;
    y += row * columns;
    float values[8], most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[k] = column < columns ? x[column] : -INFINITY;
        most = fmaxf(most, values[k]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        values[k] = expf(values[k] - most);
        sum += values[k];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        if (column < columns) {
            y[column] = values[k] / sum;
        }
    }
}
