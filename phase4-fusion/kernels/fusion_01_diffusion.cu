// The diffusion step in one pass: what three kernels hand on through memory stays in registers.
//
//     separate   denoise reads 8 and writes 4 bytes per value, blend 8 and 4, clamp 4 and 4     32
//     here       reads 12, writes 4                                                            16
//
// Limited by memory: a thread has two vectors of each tensor in flight, 96 bytes. Every operation is rounded as in the separate
// kernels (phase 3's `diffusion_01.cu`), so that both give the same bits.
// run: test fusion // trial: diffusion_step

constexpr unsigned THREADS = 256;
// Vectors of four values of each tensor that a thread has in flight.
constexpr unsigned VECTORS = 2;

// Step of the schedule, and weights of the blend, as `src/fusion/mod.rs` has them.
struct Step {
    float noise_scale, signal_scale, weight, previous_weight, threshold;
};

// ANCHOR: kernel
__device__ inline float step_of(const Step &step, float noisy, float noise, float previous) {
    float x = __fdiv_rn(__fsub_rn(noisy, __fmul_rn(step.noise_scale, noise)), step.signal_scale);
    // Not `<=`, for which a NaN in the previous frame would vanish.
    bool apart = fabsf(__fsub_rn(x, previous)) > step.threshold;
    x = apart ? x : __fadd_rn(__fmul_rn(step.weight, x), __fmul_rn(step.previous_weight, previous));
    // Not fminf and fmaxf, which would turn NaN into a number.
    return x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
}

// n is below 2³¹; all four are aligned to 16 bytes.
extern "C" __global__ void __launch_bounds__(THREADS)
    diffusion_step(const float *__restrict__ noisy, const float *__restrict__ noise, const float *__restrict__ previous,
                   float *__restrict__ y, Step step, unsigned n) {
    unsigned first = blockIdx.x * (VECTORS * THREADS) + threadIdx.x;
    float4 of_noisy[VECTORS], of_noise[VECTORS], of_previous[VECTORS];
    // All loads before the first use, so that six misses overlap.
#pragma unroll
    for (unsigned j = 0; j < VECTORS; j++) {
        unsigned i = first + j * THREADS;
        if (i < n / 4) {
            of_noisy[j] = reinterpret_cast<const float4 *>(noisy)[i];
            of_noise[j] = reinterpret_cast<const float4 *>(noise)[i];
            of_previous[j] = reinterpret_cast<const float4 *>(previous)[i];
        }
    }
#pragma unroll
    for (unsigned j = 0; j < VECTORS; j++) {
        unsigned i = first + j * THREADS;
        if (i < n / 4) {
            float4 x = of_noisy[j], e = of_noise[j], p = of_previous[j];
            reinterpret_cast<float4 *>(y)[i] = make_float4(step_of(step, x.x, e.x, p.x), step_of(step, x.y, e.y, p.y),
                                                           step_of(step, x.z, e.z, p.z), step_of(step, x.w, e.w, p.w));
        }
    }
    // Up to three values remain after the last vector.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        unsigned i = n - 1 - threadIdx.x;
        y[i] = step_of(step, noisy[i], noise[i], previous[i]);
    }
}
// ANCHOR_END: kernel
