// Each thread keeps four values in registers, which is enough for 512 columns and too few for more.

__device__ float block_sum(float value) {
    __shared__ float parts[4];
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffff, value, distance);
    }
    __syncthreads(); // the parts of an earlier sum have been read
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    return parts[0] + parts[1] + parts[2] + parts[3];
}

extern "C" __global__ void layer_norm(const float *x, const float *gamma, const float *beta, float *y, int columns) {
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    float values[4], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = k * 128 + threadIdx.x;
        values[k] = i < columns ? x[i] : 0.0f;
        sum += values[k];
    }
    float mean = block_sum(sum) / columns;
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float distance = k * 128 + threadIdx.x < columns ? values[k] - mean : 0.0f;
        squares += distance * distance;
    }
    float scale = rsqrtf(block_sum(squares) / columns + 1e-5f);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = k * 128 + threadIdx.x;
        if (i < columns) {
            y[i] = (values[k] - mean) * scale * gamma[i] + beta[i];
        }
    }
}
