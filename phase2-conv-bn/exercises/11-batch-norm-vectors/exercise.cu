// BatchNorm for inference: y = x · scale + shift, with a pair (scale, shift) per channel. x and y are [images, channels, plane] and
// have n values in all; plane and n need not be multiples of 4. Both begin at a multiple of 16 bytes.
//
// Blocks have 256 threads, and there are enough of them for a thread per four values.

__device__ float normalise(float value, unsigned i, const float2 *scale_shift, unsigned channels, unsigned plane) {
    float2 of_channel = scale_shift[i / plane % channels];
    return value * of_channel.x + of_channel.y;
}

extern "C" __global__ void batch_norm(const float *x, const float2 *scale_shift, float *y, unsigned channels, unsigned plane,
                                      unsigned n) {
    unsigned i = 4 * (blockIdx.x * 256 + threadIdx.x);
    // Your code: four values at a time as a float4, if there are four, and what is left over. May the four lie in two channels?
}
