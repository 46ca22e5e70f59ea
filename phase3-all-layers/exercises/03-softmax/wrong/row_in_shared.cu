// Right values, but the row is in shared memory between its load and its store.

extern "C" __global__ void softmax(const float *x, float *y, int rows, int columns) {
    __shared__ float rows_of_block[4][256];
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    x += row * columns;
    y += row * columns;
    float *values = rows_of_block[threadIdx.y], most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[column] = column < columns ? x[column] : -INFINITY;
        most = fmaxf(most, values[column]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[column] = expf(values[column] - most);
        sum += values[column];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        if (column < columns) {
            y[column] = values[column] / sum;
        }
    }
}
