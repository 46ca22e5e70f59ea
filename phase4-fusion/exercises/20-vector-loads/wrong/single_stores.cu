// The load is wide, the results are stored one float at a time.

extern "C" __global__ void scale(const float *x, float *y, float factor, unsigned n) {
    unsigned first = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (first >= n) {
        return;
    }
    float a, b, c, d;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + first));
    a *= factor;
    b *= factor;
    c *= factor;
    d *= factor;
    y[first] = a;
    y[first + 1] = b;
    y[first + 2] = c;
    y[first + 3] = d;
}
