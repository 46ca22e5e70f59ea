// The sums of a row are taken to be the first and the third.

extern "C" __global__ void products(const unsigned short *a, const unsigned short *b, float *c) {
    a += blockIdx.x * 16 * 16;
    b += blockIdx.x * 8 * 16;
    c += blockIdx.x * 16 * 8;
    unsigned group = threadIdx.x / 4, pair = 2 * (threadIdx.x % 4);
    unsigned a0 = *reinterpret_cast<const unsigned *>(a + group * 16 + pair);
    unsigned a1 = *reinterpret_cast<const unsigned *>(a + (group + 8) * 16 + pair);
    unsigned a2 = *reinterpret_cast<const unsigned *>(a + group * 16 + pair + 8);
    unsigned a3 = *reinterpret_cast<const unsigned *>(a + (group + 8) * 16 + pair + 8);
    unsigned b0 = *reinterpret_cast<const unsigned *>(b + group * 16 + pair);
    unsigned b1 = *reinterpret_cast<const unsigned *>(b + group * 16 + pair + 8);
    float sums[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    *reinterpret_cast<float2 *>(c + group * 8 + pair) = make_float2(sums[0], sums[2]);
    *reinterpret_cast<float2 *>(c + (group + 8) * 8 + pair) = make_float2(sums[1], sums[3]);
}
