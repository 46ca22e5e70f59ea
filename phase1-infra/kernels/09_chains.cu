// Chains of multiply-adds: each needs the result of the one before, and a thread has 1, 2, 4 or 8 chains side by side.
//
//     1 chain       x0 → x0 → x0 → x0 → …        a multiply-add can start when the one before it is done
//     4 chains      x0 → x0 → x0 → x0 → …        four can be under way at once, of one warp
//                   x1 → x1 → x1 → x1 → …
//                   x2 → x2 → x2 → x2 → …
//                   x3 → x3 → x3 → x3 → …
//
// Limited by the latency of a multiply-add while warps × chains are few, then by how many an SM starts per cycle. It reads
// nothing, so that memory has no part in it.
// run: latency-hiding

// ANCHOR: kernel
constexpr int STEPS = 16;  // multiply-adds of each chain per iteration, so that the loop itself costs little

// x ← a · x + b, `rounds` · STEPS times, in each chain; then the sum of the thread's chains.
template <int CHAINS>
__device__ void multiply_add(float *out, float a, float b, unsigned rounds) {
    float x[CHAINS];
    for (int chain = 0; chain < CHAINS; chain++) {
        x[chain] = threadIdx.x * CHAINS + chain;
    }
#pragma unroll 1
    for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
#pragma unroll
            for (int chain = 0; chain < CHAINS; chain++) {
                x[chain] = fmaf(a, x[chain], b);
            }
        }
    }
    float sum = 0.0f;
    for (int chain = 0; chain < CHAINS; chain++) {
        sum += x[chain];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// ANCHOR_END: kernel

// One result per thread of the launch. 32 registers per thread or fewer, so that 64 warps fit on an SM.
#define KERNEL(CHAINS)                                                              \
    extern "C" __global__ void __launch_bounds__(128)                               \
        chains_##CHAINS(float *out, float a, float b, unsigned rounds) {            \
        multiply_add<CHAINS>(out, a, b, rounds);                                    \
    }
KERNEL(1)
KERNEL(2)
KERNEL(4)
KERNEL(8)
