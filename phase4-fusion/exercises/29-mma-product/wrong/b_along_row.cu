// Two neighbours in a row of B, where the instruction wants two in a column.

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

// Columns `column` and the next of a row of A.
__device__ unsigned from_a(const unsigned short *a, unsigned row, unsigned column, unsigned rows, unsigned k) {
    return row < rows && column < k ? *reinterpret_cast<const unsigned *>(a + row * k + column) : 0;
}

// One element of B.
__device__ unsigned short from_b(const unsigned short *b, unsigned row, unsigned column, unsigned columns, unsigned k) {
    return row < k && column < columns ? b[row * columns + column] : 0;
}

extern "C" __global__ void product(const unsigned short *a, const unsigned short *b, float *c, unsigned rows, unsigned columns,
                                   unsigned k) {
    unsigned top = 16 * blockIdx.y, left = 8 * blockIdx.x;
    unsigned group = threadIdx.x / 4, pair = 2 * (threadIdx.x % 4);
    float sums[4] = {};
    for (unsigned step = 0; step < k; step += 16) {
        unsigned fragment_a[4], fragment_b[2];
        for (unsigned i = 0; i < 4; ++i) {
            fragment_a[i] = from_a(a, top + group + i % 2 * 8, step + pair + i / 2 * 8, rows, k);
        }
        for (unsigned i = 0; i < 2; ++i) {
            unsigned row = step + pair + i * 8;
            fragment_b[i] = pack(from_b(b, row, left + group, columns, k), from_b(b, row, left + group + 1, columns, k));
        }
        multiply(sums, fragment_a, fragment_b);
    }
    for (unsigned i = 0; i < 4; ++i) {
        unsigned row = top + group + i / 2 * 8, column = left + pair + i % 2;
        if (row < rows && column < columns) {
            c[row * columns + column] = sums[i];
        }
    }
}
