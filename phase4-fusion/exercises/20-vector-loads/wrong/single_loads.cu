// Right values, but the line of PTX loads one float, four times.

extern "C" __global__ void scale(const float *x, float *y, float factor, unsigned n) {
    unsigned first = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (first >= n) {
        return;
    }
    float a, b, c, d;
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(a) : "l"(x + first));
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(b) : "l"(x + first + 1));
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(c) : "l"(x + first + 2));
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(d) : "l"(x + first + 3));
    a *= factor;
    b *= factor;
    c *= factor;
    d *= factor;
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(y + first), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
