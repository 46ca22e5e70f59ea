// Lane l names row l % 16 of A, in the left half of the step's columns or in the right one.

// Four matrices of 8 × 8 halves: each of the 32 lanes names a row of one, 16 bytes.
__device__ void load_four(unsigned *registers, const unsigned short *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
}

// Two of them: the rows are those of lanes 0 to 15.
__device__ void load_two(unsigned *registers, const unsigned short *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(registers[0]), "=r"(registers[1])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
}

// sums += A · B for 16 rows, 8 columns and 16 values of k.
__device__ void multiply(float *sums, const unsigned *a, const unsigned *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Eight values of a row of a matrix with 64 columns, 0 where there is no such row.
__device__ uint4 piece_of(const unsigned short *matrix, unsigned row, unsigned column, unsigned rows) {
    return row < rows ? *reinterpret_cast<const uint4 *>(matrix + row * 64 + column) : make_uint4(0, 0, 0, 0);
}

extern "C" __global__ void product(const unsigned short *a, const unsigned short *b, float *c, unsigned rows, unsigned columns) {
    constexpr unsigned PITCH = 72;
    __shared__ alignas(16) unsigned short tile[24][PITCH]; // 16 rows of A, then 8 of B
    unsigned lane = threadIdx.x, top = 16 * blockIdx.y, left = 8 * blockIdx.x;
    for (unsigned i = lane; i < 24 * 8; i += 32) { // 16 bytes each, a row after the other
        unsigned row = i / 8, column = i % 8 * 8;
        *reinterpret_cast<uint4 *>(&tile[row][column]) =
            row < 16 ? piece_of(a, top + row, column, rows) : piece_of(b, left + row - 16, column, columns);
    }
    __syncwarp();
    float sums[4] = {};
    for (unsigned step = 0; step < 64; step += 16) {
        unsigned fragment_a[4], fragment_b[2];
        load_four(fragment_a, &tile[lane % 16][step + lane / 16 * 8]);
        load_two(fragment_b, &tile[16 + lane % 8][step + lane / 8 % 2 * 8]);
        multiply(sums, fragment_a, fragment_b);
    }
    for (unsigned i = 0; i < 4; ++i) {
        unsigned row = top + lane / 4 + i / 2 * 8, column = left + 2 * (lane % 4) + i % 2;
        if (row < rows && column < columns) {
            c[row * columns + column] = sums[i];
        }
    }
}
