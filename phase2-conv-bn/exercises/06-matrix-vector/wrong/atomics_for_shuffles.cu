// Right values, but the lanes of each warp add atomically to its sum in shared memory, one after another.

extern "C" __global__ void linear(const float *weight, const float *x, const float *bias, float *y, unsigned inputs,
                                  unsigned outputs) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= outputs) {
        return;  // the whole warp
    }
    __shared__ float of_rows[8];
    unsigned warp = threadIdx.x / 32;
    if (lane == 0) {
        of_rows[warp] = bias[row];
    }
    __syncwarp();
    float sum = 0.0f;
    for (unsigned i = lane; i < inputs; i += 32) {
        sum += weight[row * inputs + i] * x[i];
    }
    atomicAdd(&of_rows[warp], sum);
    __syncwarp();
    if (lane == 0) {
        y[row] = fmaxf(of_rows[warp], 0.0f);
    }
}
