// Only blended values are clamped.

extern "C" __global__ void diffusion_step(const float *noisy, const float *noise, const float *previous, float *y,
                                          float noise_scale, float signal_scale, float weight, float previous_weight,
                                          float threshold, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float clean = (noisy[i] - __fmul_rn(noise_scale, noise[i])) / signal_scale, before = previous[i];
        float value = clean;
        if (fabsf(clean - before) <= threshold) {
            value = __fmul_rn(weight, clean) + __fmul_rn(previous_weight, before);
            value = fminf(fmaxf(value, -1.0f), 1.0f);
        }
        y[i] = value;
    }
}
