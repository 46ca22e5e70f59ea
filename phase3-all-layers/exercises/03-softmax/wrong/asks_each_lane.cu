// Right values, but each lane asks the 32 lanes for their maxima and sums one after the other.

extern "C" __global__ void softmax(const float *x, float *y, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    x += row * columns;
    y += row * columns;
    float values[8], most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[k] = column < columns ? x[column] : -INFINITY;
        most = fmaxf(most, values[k]);
    }
    float own = most;
    for (int lane = 0; lane < 32; ++lane) {
        most = fmaxf(most, __shfl_sync(0xffffffff, own, lane));
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        values[k] = expf(values[k] - most);
        sum += values[k];
    }
    float part = sum;
    sum = 0.0f;
    for (int lane = 0; lane < 32; ++lane) {
        sum += __shfl_sync(0xffffffff, part, lane);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        if (column < columns) {
            y[column] = values[k] / sum;
        }
    }
}
