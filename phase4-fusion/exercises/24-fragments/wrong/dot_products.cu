// Right values, but without the instruction: each lane adds its four sums by itself.

extern "C" __global__ void products(const unsigned short *a, const unsigned short *b, float *c) {
    a += blockIdx.x * 16 * 16;
    b += blockIdx.x * 8 * 16;
    c += blockIdx.x * 16 * 8;
    unsigned group = threadIdx.x / 4, pair = 2 * (threadIdx.x % 4);
    float sums[4] = {};
    for (unsigned i = 0; i < 4; ++i) {
        for (unsigned k = 0; k < 16; ++k) {
            float left, right;
            asm("cvt.f32.f16 %0, %1;" : "=f"(left) : "h"(a[(group + i / 2 * 8) * 16 + k]));
            asm("cvt.f32.f16 %0, %1;" : "=f"(right) : "h"(b[(pair + i % 2) * 16 + k]));
            sums[i] += left * right;
        }
    }
    *reinterpret_cast<float2 *>(c + group * 8 + pair) = make_float2(sums[0], sums[1]);
    *reinterpret_cast<float2 *>(c + (group + 8) * 8 + pair) = make_float2(sums[2], sums[3]);
}
