// The textbook's difference of two large numbers, in doubles, which have digits to spare.

__device__ double block_sum(double value) {
    __shared__ double parts[4];
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
    double sum = 0.0, squares = 0.0;
    for (int i = threadIdx.x; i < columns; i += 128) {
        sum += x[i];
        squares += static_cast<double>(x[i]) * x[i];
    }
    double mean = block_sum(sum) / columns;
    double variance = block_sum(squares) / columns - mean * mean;
    float scale = rsqrtf(static_cast<float>(variance) + 1e-5f), middle = static_cast<float>(mean);
    for (int i = threadIdx.x; i < columns; i += 128) {
        y[i] = (x[i] - middle) * scale * gamma[i] + beta[i];
    }
}
