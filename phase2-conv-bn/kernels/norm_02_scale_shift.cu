// BatchNorm for inference, its four parameters per channel folded into two beforehand, and the grid laid over the planes.
//
//     y = x · scale[c] + shift[c],    scale = weight / √(variance + eps),    shift = bias − mean · scale
//
//     x: [N, C, H, W] is N·C planes of H·W values, one channel each
//     block (p, q) → values [p · blockDim.x, (p + 1) · blockDim.x) of plane q: the channel is the block's. Of step 1's two
//     divisions for the index, root and division for the value, one remainder is left
//
// Limited by memory, once the planes are large. A plane of 7 × 7 leaves 15 of the 64 lanes of its block idle, one of
// 1 × 1 leaves 31 of 32; and a thread has a single 4-byte load in flight.
// run: norm // trial: norm

// One thread per channel: a root and a division for each channel in place of each element. The parameters of a trained layer
// do not change, so this runs once per layer, not once per image.
// scale_shift: [C], .x the scale, .y the shift.
// ANCHOR: fold
extern "C" __global__ void fold(const float *weight, const float *bias, const float *mean, const float *variance,
                                float2 *scale_shift, float eps, unsigned channels) {
    unsigned c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < channels) {
        float scale = weight[c] / sqrtf(variance[c] + eps);
        scale_shift[c] = make_float2(scale, bias[c] - mean[c] * scale);
    }
}
// ANCHOR_END: fold

// y may be x. A grid has at most 65,535 blocks in y, so a block goes on to plane q + gridDim.y where there are more planes.
// ANCHOR: kernel
extern "C" __global__ void scale_shift(const float *x, const float2 *scale_shift, float *y, unsigned channels,
                                       unsigned plane,  // H·W
                                       unsigned planes  // N·C
) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= plane) {
        return;
    }
    for (unsigned q = blockIdx.y; q < planes; q += gridDim.y) {
        float2 of = scale_shift[q % channels];
        unsigned at = q * plane + i;
        y[at] = x[at] * of.x + of.y;
    }
}
// ANCHOR_END: kernel
