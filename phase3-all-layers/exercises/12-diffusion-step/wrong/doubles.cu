// Computes in double precision and rounds once: that is more exact, but the host rounds every operation.

extern "C" __global__ void diffusion_step(const float *noisy, const float *noise, const float *previous, float *y,
                                          float noise_scale, float signal_scale, float weight, float previous_weight,
                                          float threshold, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        double clean = (noisy[i] - (double)noise_scale * noise[i]) / signal_scale, before = previous[i];
        double value = clean;
        if (fabs(clean - before) <= threshold) {
            value = weight * clean + previous_weight * before;
        }
        y[i] = (float)fmin(fmax(value, -1.0), 1.0);
    }
}
