// Right values, but the lanes exchange the maximum and the sum once per value: eight times five exchanges.

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
        float highest = values[k];
        for (int distance = 16; distance > 0; distance /= 2) {
            highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, distance));
        }
        most = fmaxf(most, highest);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        values[k] = expf(values[k] - most);
        float part = values[k];
        for (int distance = 16; distance > 0; distance /= 2) {
            part += __shfl_xor_sync(0xffffffff, part, distance);
        }
        sum += part;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        if (column < columns) {
            y[column] = values[k] / sum;
        }
    }
}
