// Adds the noise of a diffusion schedule's next step, before the next forward pass: one thread per value.
//
//     y = √ᾱ·x + √(1−ᾱ)·ε        reads 8, writes 4 bytes per value
//
// Limited by memory. Every operation is rounded separately, so the host computes the same bits.
// run: test elementwise // trial: add_noise

// ANCHOR: kernel
extern "C" __global__ void add_noise(const float *__restrict__ clean, const float *__restrict__ noise,
                                     float *__restrict__ y, float signal_scale, float noise_scale, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = __fadd_rn(__fmul_rn(signal_scale, clean[i]), __fmul_rn(noise_scale, noise[i]));
    }
}
// ANCHOR_END: kernel
