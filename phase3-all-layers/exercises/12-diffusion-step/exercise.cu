// One step of a diffusion model, in one pass:
//
//     clean = (noisy − noise_scale · noise) / signal_scale
//     y     = weight · clean + previous_weight · previous   if |clean − previous| ≤ threshold, otherwise clean
//     y     = y clamped to [−1, 1]
//
// One thread per value, blocks of 128 threads. Every operation is rounded to f32 by itself, as the host does it: y must have the same bits.

extern "C" __global__ void diffusion_step(const float *noisy, const float *noise, const float *previous, float *y,
                                          float noise_scale, float signal_scale, float weight, float previous_weight,
                                          float threshold, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        // Your code: keep the order of the operations, and keep the compiler from contracting a product and a sum.
        y[i] = noisy[i];
    }
}
