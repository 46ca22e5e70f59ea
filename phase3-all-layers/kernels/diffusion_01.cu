// A diffusion step, one kernel per line of its formula: the clean image that the noise implies, blended with the
// previous frame where the two agree, then clamped.
//
//     x̂ = (x − √(1−ᾱ)·ε) / √ᾱ          reads 8, writes 4 bytes per value
//     y = |x̂ − p| ≤ τ ? w·x̂ + (1−w)·p : x̂    reads 8, writes 4
//     y = min(max(y, −1), 1)             reads 4, writes 4
//
// Limited by memory: 32 bytes per value, 16 of them for the intermediate x̂ and y, which fusion saves. Every operation
// is rounded separately (__fmul_rn and the like are never fused), so the host computes the same bits.
// run: test elementwise // trial: diffusion_step

// ANCHOR: kernel
extern "C" __global__ void denoise(const float *__restrict__ noisy, const float *__restrict__ noise,
                                   float *__restrict__ y, float noise_scale, float signal_scale, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = __fdiv_rn(__fsub_rn(noisy[i], __fmul_rn(noise_scale, noise[i])), signal_scale);
    }
}

extern "C" __global__ void blend(float *__restrict__ y, const float *__restrict__ previous, float weight,
                                 float previous_weight, float threshold, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = y[i], p = previous[i];
        // Not `<=`, for which a NaN in the previous frame would vanish.
        bool apart = fabsf(__fsub_rn(x, p)) > threshold;
        y[i] = apart ? x : __fadd_rn(__fmul_rn(weight, x), __fmul_rn(previous_weight, p));
    }
}

extern "C" __global__ void clamp(float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = y[i];
        // Not fminf and fmaxf, which would turn NaN into a number.
        y[i] = x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
    }
}
// ANCHOR_END: kernel
