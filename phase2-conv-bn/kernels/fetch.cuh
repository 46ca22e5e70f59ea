// Loads that stay where they are written. The compiler may put a load under a condition next to its use, after the arithmetic
// that was to hide its latency; a predicate on the load itself leaves it no branch to move.
// run: conv // trial: conv
#pragma once

// The value at `from`; zero, and nothing is read, unless `inside`.
__device__ inline float fetch(const float *from, bool inside) {
    float value;
    asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @p ld.global.nc.f32 %0, [%1];}"
                 : "=f"(value)
                 : "l"(from), "r"((int)inside));
    return value;
}

// The same for four neighbours, from a multiple of 16 bytes.
__device__ inline float4 fetch4(const float *from, bool inside) {
    float4 four;
    asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0; "
                 "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];}"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "l"(from), "r"((int)inside));
    return four;
}
