// The first warp of a block takes all four rows.

extern "C" __global__ void softmax(const float *x, float *y, int rows, int columns) {
    if (threadIdx.y != 0) {
        return;
    }
    for (int row = blockIdx.x * 4; row < min(rows, static_cast<int>(blockIdx.x) * 4 + 4); ++row) {
        float values[8], most = -INFINITY, sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            int column = k * 32 + threadIdx.x;
            values[k] = column < columns ? x[row * columns + column] : -INFINITY;
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
                y[row * columns + column] = values[k] / sum;
            }
        }
    }
}
