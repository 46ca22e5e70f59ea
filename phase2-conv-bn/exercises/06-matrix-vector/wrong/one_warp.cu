// The first warp of a block takes all eight rows.

extern "C" __global__ void linear(const float *weight, const float *x, const float *bias, float *y, unsigned inputs,
                                  unsigned outputs) {
    if (threadIdx.x >= 32) {
        return;
    }
    for (unsigned row = blockIdx.x * 8; row < min(outputs, blockIdx.x * 8 + 8); ++row) {
        float sum = 0.0f;
        for (unsigned i = threadIdx.x; i < inputs; i += 32) {
            sum += weight[row * inputs + i] * x[i];
        }
        for (unsigned distance = 16; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, distance);
        }
        if (threadIdx.x == 0) {
            y[row] = fmaxf(sum + bias[row], 0.0f);
        }
    }
}
