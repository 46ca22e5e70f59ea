// silu(a + b·c) over three tensors in 16-byte vectors: one kernel instead of a product, a sum and a SiLU.
//
//     separate   b·c → t     reads 8, writes 4 bytes per value
//                a + t → t   reads 8, writes 4
//                silu(t) → y reads 4, writes 4
//     here       reads 12, writes 4: 16 of the 32 bytes, one of the three launches
//
// Limited by memory: a thread has two vectors of each tensor in flight, 96 bytes.
// run: test elementwise // trial: silu_sum

constexpr unsigned THREADS = 256;
// Vectors of each tensor that a thread has in flight.
constexpr unsigned VECTORS = 2;

// Product and sum are rounded separately, as separate kernels would do.
__device__ float silu_of_sum(float a, float b, float c) {
    float x = __fadd_rn(a, __fmul_rn(b, c));
    return x / (1.0f + expf(-x));
}

// n is below 2³¹; all four are aligned to 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    silu_sum(const float *__restrict__ a, const float *__restrict__ b, const float *__restrict__ c,
             float *__restrict__ y, unsigned n) {
    unsigned first = blockIdx.x * (VECTORS * THREADS) + threadIdx.x;
    float4 of_a[VECTORS], of_b[VECTORS], of_c[VECTORS];
    // All loads before the first use, so that six misses overlap.
#pragma unroll
    for (unsigned j = 0; j < VECTORS; j++) {
        unsigned i = first + j * THREADS;
        if (i < n / 4) {
            of_a[j] = reinterpret_cast<const float4 *>(a)[i];
            of_b[j] = reinterpret_cast<const float4 *>(b)[i];
            of_c[j] = reinterpret_cast<const float4 *>(c)[i];
        }
    }
#pragma unroll
    for (unsigned j = 0; j < VECTORS; j++) {
        unsigned i = first + j * THREADS;
        if (i < n / 4) {
            float4 p = of_a[j], q = of_b[j], r = of_c[j];
            reinterpret_cast<float4 *>(y)[i] = make_float4(silu_of_sum(p.x, q.x, r.x), silu_of_sum(p.y, q.y, r.y),
                                                           silu_of_sum(p.z, q.z, r.z), silu_of_sum(p.w, q.w, r.w));
        }
    }
    // Up to three values remain after the last vector.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        unsigned i = n - 1 - threadIdx.x;
        y[i] = silu_of_sum(a[i], b[i], c[i]);
    }
}
// ANCHOR_END: kernel
