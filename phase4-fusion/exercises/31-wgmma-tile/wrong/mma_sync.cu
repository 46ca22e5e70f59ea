// Right values, but eight warps with a product of their own each: fragments come through registers.

extern "C" __global__ void product(const unsigned short *a, const unsigned short *b, float *c, unsigned rows, unsigned columns,
                                   unsigned k) {
    unsigned top = 128 * blockIdx.y + threadIdx.x / 32 * 16, left = 8 * blockIdx.x;
    unsigned group = threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2;
    float sums[4] = {};
    for (unsigned step = 0; step < k; step += 16) {
        unsigned at[4], bt[2];
        for (unsigned i = 0; i < 4; ++i) {
            unsigned row = top + group + i % 2 * 8;
            at[i] = row < rows ? *reinterpret_cast<const unsigned *>(a + row * k + step + pair + i / 2 * 8) : 0;
        }
        for (unsigned i = 0; i < 2; ++i) {
            bt[i] = left + group < columns ? *reinterpret_cast<const unsigned *>(b + (left + group) * k + step + pair + i * 8) : 0;
        }
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(bt[0]), "r"(bt[1]));
    }
    for (unsigned i = 0; i < 4; ++i) {
        unsigned row = top + group + i / 2 * 8, column = left + pair + i % 2;
        if (row < rows && column < columns) {
            c[row * columns + column] = sums[i];
        }
    }
}
