// The four rows of a thread share their sums: each takes in the products of all of them.

extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k) {
    __shared__ float a_tile[64][16];  // [row][i]
    __shared__ float b_tile[16][64];  // [i][column]
    unsigned x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
    unsigned first_row = blockIdx.y * 64, first_column = blockIdx.x * 64;
    float sums[4] = {};
    for (unsigned first = 0; first < k; first += 16) {
        for (unsigned at = thread; at < 64 * 16; at += 256) {
            unsigned row = first_row + at / 16, column = first + at % 16;
            a_tile[at / 16][at % 16] = row < m && column < k ? a[row * k + column] : 0.0f;
        }
        for (unsigned at = thread; at < 16 * 64; at += 256) {
            unsigned row = first + at / 64, column = first_column + at % 64;
            b_tile[at / 64][at % 64] = row < k && column < n ? b[row * n + column] : 0.0f;
        }
        __syncthreads();  // the tiles are complete
        for (unsigned i = 0; i < 16; ++i) {
            float of_a[4], of_b[4];
            for (unsigned r = 0; r < 4; ++r) {
                of_a[r] = a_tile[y + 16 * r][i];
                of_b[r] = b_tile[i][x + 16 * r];
            }
            for (unsigned r = 0; r < 4; ++r) {
                for (unsigned s = 0; s < 4; ++s) {
                    sums[s] += of_a[r] * of_b[s];
                }
            }
        }
        __syncthreads();  // all threads are done with them
    }
    for (unsigned r = 0; r < 4; ++r) {
        for (unsigned s = 0; s < 4; ++s) {
            unsigned row = first_row + y + 16 * r, column = first_column + x + 16 * s;
            if (row < m && column < n) {
                c[row * n + column] = sums[s];
            }
        }
    }
}
