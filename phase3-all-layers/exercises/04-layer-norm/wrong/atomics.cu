// Right values, but all threads add their values by atomics in shared memory.

__device__ float block_sum(float *total, float value) {
    atomicAdd(total, value);
    __syncthreads();
    return *total;
}

extern "C" __global__ void layer_norm(const float *x, const float *gamma, const float *beta, float *y, int columns) {
    __shared__ float totals[2];
    if (threadIdx.x < 2) {
        totals[threadIdx.x] = 0.0f;
    }
    __syncthreads();
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 128) {
        sum += x[i];
    }
    float mean = block_sum(&totals[0], sum) / columns;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 128) {
        float distance = x[i] - mean;
        squares += distance * distance;
    }
    float scale = rsqrtf(block_sum(&totals[1], squares) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += 128) {
        y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
    }
}
