// Four 8 × 8 matrices of halves, out of rows of 64 bytes.

extern "C" __global__ void matrix_rows(const uint4 *x, uint4 *y) {
    __shared__ uint4 tile[32][4];  // 32 rows of 64 bytes
    unsigned lane = threadIdx.x;
    for (unsigned piece = 0; piece < 4; ++piece) {
        tile[lane][piece] = x[4 * lane + piece];
    }
    __syncwarp();
    unsigned row = (unsigned)__cvta_generic_to_shared(&tile[lane][0]);
    uint4 f;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.x), "=r"(f.y), "=r"(f.z), "=r"(f.w)
                 : "r"(row)
                 : "memory");
    y[lane] = f;
}
