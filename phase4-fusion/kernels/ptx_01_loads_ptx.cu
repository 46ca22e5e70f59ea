// nvrtc: --gpu-architecture=compute_80 // run: ptx
// y = 2.5·x, 16 bytes per load, with hints that CUDA C has no words for: read through the path of read-only data, do not
// keep the line in L1, fetch 256 bytes into L2, and evict what was written first.
//
// Limited by memory: the hints change what the caches keep, not what moves.

// ANCHOR: hints
__device__ float4 load_once(const float4 *from) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(from));
    return v;
}

__device__ void store_once(float4 *to, float4 v) {
    asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
// ANCHOR_END: hints

// x and y lie at multiples of 16 bytes. n / 4 + 1 threads: the last one takes the n % 4 values that are left.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) loads(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = load_once(reinterpret_cast<const float4 *>(x) + i);
        v = make_float4(2.5f * v.x, 2.5f * v.y, 2.5f * v.z, 2.5f * v.w);
        store_once(reinterpret_cast<float4 *>(y) + i, v);
    } else if (i == n / 4) {
#pragma unroll 1
        for (unsigned k = n / 4 * 4; k < n; k++) {
            y[k] = 2.5f * x[k];
        }
    }
}
// ANCHOR_END: kernel
