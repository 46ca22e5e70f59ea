// No tiles, no barrier: every value comes from global memory.

extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k) {
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned first_row = blockIdx.y * 64, first_column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (unsigned i = 0; i < k; ++i) {
        float rows[4], columns[4];
        for (unsigned r = 0; r < 4; ++r) {
            unsigned row = first_row + y + 16 * r, column = first_column + x + 16 * r;
            rows[r] = row < m ? a[row * k + i] : 0.0f;
            columns[r] = column < n ? b[i * n + column] : 0.0f;
        }
        for (unsigned r = 0; r < 4; ++r) {
            for (unsigned s = 0; s < 4; ++s) {
                sums[r][s] += rows[r] * columns[s];
            }
        }
    }
    for (unsigned r = 0; r < 4; ++r) {
        for (unsigned s = 0; s < 4; ++s) {
            unsigned row = first_row + y + 16 * r, column = first_column + x + 16 * s;
            if (row < m && column < n) {
                c[row * n + column] = sums[r][s];
            }
        }
    }
}
