// BatchNorm as inference uses it, with running statistics: one thread normalises one element.
//
//     y = (x − mean[c]) / √(variance[c] + eps) · weight[c] + bias[c]        x, y: [N, C, H, W]
//
// Limited by memory: 4 bytes in, 4 bytes out, and about ten operations between. The four values of a channel come from
// the cache, since 32 neighbours nearly always share them; the root and the division are done again for each element.
// run: norm // trial: norm
// ANCHOR: kernel
extern "C" __global__ void batch_norm(const float *x, const float *weight, const float *bias, const float *mean,
                                      const float *variance, float *y, float eps, unsigned channels,
                                      unsigned plane,  // H·W
                                      unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    unsigned c = i / plane % channels;
    y[i] = (x[i] - mean[c]) / sqrtf(variance[c] + eps) * weight[c] + bias[c];
}
// ANCHOR_END: kernel
