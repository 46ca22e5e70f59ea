// y = (x − mean) / √(variance + 1e-5) · gamma + beta over each row, with the variance as the mean square distance from the mean.
// Values of x lie between 999 and 1001.
//
// One block of 128 threads per row.

__device__ float block_sum(float value) {
    __shared__ float parts[4];
    // Your code: the sum of `value` over the four warps of the block, the same in every thread.
    parts[threadIdx.x / 32] = value;
    return value;
}

extern "C" __global__ void layer_norm(const float *x, const float *gamma, const float *beta, float *y, int columns) {
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 128) {
        sum += x[i];
    }
    float mean = block_sum(sum) / columns;
    // Your code: the variance, without losing its digits.
    float scale = rsqrtf(1.0f + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += 128) {
        y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
    }
}
