// C = A·B on tensor cores, one warp per tile of 16 × 8, in a block of its own. A is [rows][k] and B [k][columns] in f16, C
// [rows][columns] in f32, all row-major. A half is given as its 16 bits. rows and columns are any numbers, k is even: two
// neighbours in a row of A are one aligned 32-bit load.

// sums += A · B for 16 rows, 8 columns and 16 values of k.
__device__ void multiply(float *sums, const unsigned *a, const unsigned *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two halves in one register, `low` in the lower 16 bits.
__device__ unsigned pack(unsigned short low, unsigned short high) {
    return low | static_cast<unsigned>(high) << 16;
}

extern "C" __global__ void product(const unsigned short *a, const unsigned short *b, float *c, unsigned rows, unsigned columns,
                                   unsigned k) {
    unsigned top = 16 * blockIdx.y, left = 8 * blockIdx.x;
    unsigned group = threadIdx.x / 4, pair = 2 * (threadIdx.x % 4);
    float sums[4] = {};
    // Your code: go along k in steps of 16. In each, load this lane's four registers of A and two of B, and multiply.
    for (unsigned i = 0; i < 4; ++i) {
        unsigned row = top + group + i / 2 * 8, column = left + pair + i % 2;
        // Your code: does this element exist?
        c[row * columns + column] = sums[i];
    }
}
