// Right values, but the first thread adds up the row alone.

__device__ float block_sum(float value) {
    __shared__ float all;
    __syncthreads(); // an earlier sum has been read
    if (threadIdx.x == 0) {
        all = value;
    }
    __syncthreads();
    return all;
}

extern "C" __global__ void layer_norm(const float *x, const float *gamma, const float *beta, float *y, int columns) {
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = 0; threadIdx.x == 0 && i < columns; ++i) {
        sum += x[i];
    }
    float mean = block_sum(sum) / columns;
    float squares = 0.0f;
    for (int i = 0; threadIdx.x == 0 && i < columns; ++i) {
        float distance = x[i] - mean;
        squares += distance * distance;
    }
    float scale = rsqrtf(block_sum(squares) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += 128) {
        y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
    }
}
