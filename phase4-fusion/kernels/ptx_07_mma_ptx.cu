// nvrtc: --gpu-architecture=compute_80 // run: ptx
// The chain by `mma.sync`, whose fragments are documented: a lane holds, of the sums, just those elements that it has to hold
// of the next product's left factor. So a step needs two products of 16×8, four conversions, and no memory.
//
//     sums of columns 0–7     row g:     columns 2t, 2t+1   → factor a[0]
//                             row g + 8: columns 2t, 2t+1   → factor a[1]
//     sums of columns 8–15    row g:     columns 2t, 2t+1   → factor a[2]      g = lane / 4, t = lane % 4
//                             row g + 8: columns 2t, 2t+1   → factor a[3]
//
// Limited by memory, if enough warps hide that each product waits for the one before.

#include "ptx_07_mma.cuh"

// d = a·b: 16×16 times 16×8.
// ANCHOR: mma
__device__ void product(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

// Two halves in one register; the second argument of the instruction is the lower one.
__device__ unsigned pair(float low, float high) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
// ANCHOR_END: mma

// x: [chains, 16, 16], row-major. p: [chains, 16, 16], column-major. y: f32, as x.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    markov(const __half *x, const __half *p, float *y, unsigned chains) {
    unsigned g = threadIdx.x % 32 / 4;  // [0, 8)
    unsigned t = threadIdx.x % 4;
    size_t chain = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (chain >= chains) {
        return;  // all lanes of the warp
    }
    // In words of two halves, of which a row has 8.
    const unsigned *from = reinterpret_cast<const unsigned *>(x + chain * SIZE);
    const unsigned *step = reinterpret_cast<const unsigned *>(p + chain * SIZE);
    unsigned a[4] = {from[8 * g + t], from[8 * (g + 8) + t], from[8 * g + t + 4], from[8 * (g + 8) + t + 4]};
    unsigned left[2] = {step[8 * g + t], step[8 * g + t + 4]};               // columns 0 to 7
    unsigned right[2] = {step[8 * (g + 8) + t], step[8 * (g + 8) + t + 4]};  // columns 8 to 15
    float low[4], high[4];
    for (unsigned s = 0; s < STEPS; s++) {
        product(low, a, left);
        product(high, a, right);
        a[0] = pair(low[0], low[1]);
        a[1] = pair(low[2], low[3]);
        a[2] = pair(high[0], high[1]);
        a[3] = pair(high[2], high[3]);
    }
    float2 *to = reinterpret_cast<float2 *>(y + chain * SIZE);
    to[8 * g + t] = make_float2(low[0], low[1]);
    to[8 * (g + 8) + t] = make_float2(low[2], low[3]);
    to[8 * g + t + 4] = make_float2(high[0], high[1]);
    to[8 * (g + 8) + t + 4] = make_float2(high[2], high[3]);
}
// ANCHOR_END: kernel
