// Right values and full sectors, but a thread's values are 256 apart: four loads and four stores of 4 bytes.

extern "C" __global__ void scale(const float *x, float *y, float factor, unsigned n) {
    unsigned first = blockIdx.x * 1024 + threadIdx.x;
    for (unsigned i = first; i < min(first + 1024, n); i += 256) {
        float a;
        asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(a) : "l"(x + i));
        y[i] = a * factor;
    }
}
