// Right values, but each lane takes a run of neighbouring inputs: the lanes of a warp read far apart.

extern "C" __global__ void linear(const float *weight, const float *x, const float *bias, float *y, unsigned inputs,
                                  unsigned outputs) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= outputs) {
        return;  // the whole warp
    }
    float sum = 0.0f;
    unsigned each = (inputs + 31) / 32;
    for (unsigned i = lane * each; i < min(lane * each + each, inputs); ++i) {
        sum += weight[row * inputs + i] * x[i];
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    if (lane == 0) {
        y[row] = fmaxf(sum + bias[row], 0.0f);
    }
}
