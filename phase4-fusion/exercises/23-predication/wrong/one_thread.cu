// Right values, but one thread of a warp adds 1 to all 32 values.

extern "C" __global__ void add_one(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    for (unsigned k = i; threadIdx.x % 32 == 0 && k < i + 32; ++k) {
        asm volatile("{\n"
                     ".reg .pred inside;\n"
                     ".reg .f32 value;\n"
                     "setp.lt.u32 inside, %2, %3;\n"
                     "@inside ld.global.f32 value, [%0];\n"
                     "@inside add.f32 value, value, 0f3f800000;\n"
                     "@inside st.global.f32 [%1], value;\n"
                     "}" ::"l"(x + k), "l"(y + k), "r"(k), "r"(n)
                     : "memory");
    }
}
