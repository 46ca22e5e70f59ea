// Maximum and sum one after the other, from registers that hold no more than 1024 values of a row.

extern "C" __global__ void softmax(const float *x, float *y, int columns) {
    __shared__ float maxima[4], sums[4];
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    float values[8], most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int i = k * 128 + threadIdx.x;
        values[k] = i < columns ? x[i] : -INFINITY;
        most = fmaxf(most, values[k]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
    if (threadIdx.x % 32 == 0) {
        maxima[threadIdx.x / 32] = most;
    }
    __syncthreads();
    most = fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        values[k] = expf(values[k] - most);
        sum += values[k];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    sum = sums[0] + sums[1] + sums[2] + sums[3];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int i = k * 128 + threadIdx.x;
        if (i < columns) {
            y[i] = values[k] / sum;
        }
    }
}
