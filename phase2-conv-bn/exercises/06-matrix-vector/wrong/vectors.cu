// Each lane reads four weights at once, but a row begins at a multiple of 16 bytes only if inputs is a multiple of 4.

extern "C" __global__ void linear(const float *weight, const float *x, const float *bias, float *y, unsigned inputs,
                                  unsigned outputs) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= outputs) {
        return;  // the whole warp
    }
    float sum = 0.0f;
    for (unsigned i = 4 * lane; i < inputs; i += 128) {
        if (i + 3 < inputs) {
            float4 w = *reinterpret_cast<const float4 *>(weight + row * inputs + i);
            float4 v = *reinterpret_cast<const float4 *>(x + i);
            sum += w.x * v.x + w.y * v.y + w.z * v.z + w.w * v.w;
        } else {
            for (unsigned k = i; k < inputs; ++k) {
                sum += weight[row * inputs + k] * x[k];
            }
        }
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    if (lane == 0) {
        y[row] = fmaxf(sum + bias[row], 0.0f);
    }
}
