// Only the first product is kept from contraction: blended values are off in the last bit.

extern "C" __global__ void diffusion_step(const float *noisy, const float *noise, const float *previous, float *y,
                                          float noise_scale, float signal_scale, float weight, float previous_weight,
                                          float threshold, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float clean = (noisy[i] - __fmul_rn(noise_scale, noise[i])) / signal_scale, before = previous[i];
        float value = clean;
        if (fabsf(clean - before) <= threshold) {
            value = weight * clean + previous_weight * before;
        }
        y[i] = fminf(fmaxf(value, -1.0f), 1.0f);
    }
}
