// __shfl_down_sync gathers the sum in lane 0, but lane 31 writes.

extern "C" __global__ void linear(const float *weight, const float *x, const float *bias, float *y, unsigned inputs,
                                  unsigned outputs) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= outputs) {
        return;  // the whole warp
    }
    float sum = 0.0f;
    for (unsigned i = lane; i < inputs; i += 32) {
        sum += weight[row * inputs + i] * x[i];
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    }
    if (lane == 31) {
        y[row] = fmaxf(sum + bias[row], 0.0f);
    }
}
