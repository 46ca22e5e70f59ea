// The second barrier is inside the condition, which only one lane of each warp reaches.

__device__ float block_sum(float value) {
    __shared__ float parts[4];
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffff, value, distance);
    }
    __syncthreads(); // the parts of an earlier sum have been read
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
        __syncthreads();
    }
    return parts[0] + parts[1] + parts[2] + parts[3];
}

extern "C" __global__ void layer_norm(const float *x, const float *gamma, const float *beta, float *y, int columns) {
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 128) {
        sum += x[i];
    }
    float mean = block_sum(sum) / columns;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 128) {
        float distance = x[i] - mean;
        squares += distance * distance;
    }
    float scale = rsqrtf(block_sum(squares) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += 128) {
        y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
    }
}
