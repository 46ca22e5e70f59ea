// C = A·Bᵀ on tensor cores, for a number of tiles that have nothing to do with each other: A is [16][16] and B [8][16] in f16, C [16][8]
// in f32, all row-major, one after the other. A half is given as its 16 bits: registers take two of them as they are.
//
// One warp per tile, in a block of its own.

extern "C" __global__ void products(const unsigned short *a, const unsigned short *b, float *c) {
    a += blockIdx.x * 16 * 16;
    b += blockIdx.x * 8 * 16;
    c += blockIdx.x * 16 * 8;
    unsigned group = threadIdx.x / 4, pair = 2 * (threadIdx.x % 4);
    // Your code: which two halves of A and B does each register of this lane hold? They are neighbours: one 32-bit load.
    unsigned a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0;
    float sums[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    // Your code: and which four elements of C does it have?
    *reinterpret_cast<float2 *>(c + group * 8 + pair) = make_float2(sums[0], sums[1]);
    *reinterpret_cast<float2 *>(c + (group + 8) * 8 + pair) = make_float2(0.0f, 0.0f);
}
