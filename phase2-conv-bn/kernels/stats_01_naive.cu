// Mean and variance of each channel over N, H and W: one thread per channel, which walks all its planes.
//
//     x: [N, C, H, W]      mean[c] = Σ x / M      variance[c] = Σ x² / M − mean[c]²      M = N·H·W
//
// Limited by latency: a device with room for 270,000 threads gets 64, one for each channel of a layer. Lanes of a warp read
// values that lie a plane apart, 32 sectors for 32 values; and each addition waits for the one before.
// run: norm // trial: norm
// ANCHOR: kernel
extern "C" __global__ void stats_naive(const float *x, float *mean, float *variance, unsigned images, unsigned channels,
                                       unsigned plane  // H·W
) {
    unsigned c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) {
        return;
    }
    float sum = 0.0f;
    float squares = 0.0f;
    for (unsigned image = 0; image < images; image++) {
        const float *values = x + ((size_t)image * channels + c) * plane;
        for (unsigned i = 0; i < plane; i++) {
            sum += values[i];
            squares += values[i] * values[i];
        }
    }
    float count = (float)images * plane;
    mean[c] = sum / count;
    variance[c] = squares / count - mean[c] * mean[c];
}
// ANCHOR_END: kernel
