// Right values, but as three passes: y goes to memory and comes back twice.

extern "C" __global__ void diffusion_step(const float *noisy, const float *noise, const float *previous, float *y,
                                          float noise_scale, float signal_scale, float weight, float previous_weight,
                                          float threshold, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    volatile float *through = y;
    if (i < n) {
        through[i] = (noisy[i] - __fmul_rn(noise_scale, noise[i])) / signal_scale;
    }
    if (i < n && fabsf(through[i] - previous[i]) <= threshold) {
        through[i] = __fmul_rn(weight, through[i]) + __fmul_rn(previous_weight, previous[i]);
    }
    if (i < n) {
        y[i] = fminf(fmaxf(through[i], -1.0f), 1.0f);
    }
}
