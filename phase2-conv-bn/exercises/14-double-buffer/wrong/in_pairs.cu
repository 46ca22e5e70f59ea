// Both buffers are filled, then both are multiplied: two barriers for two tiles, and nothing overlaps.

extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k) {
    __shared__ float a_tiles[2][64][16];  // [which][row][i]
    __shared__ float b_tiles[2][16][64];  // [which][i][column]
    unsigned x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
    unsigned first_row = blockIdx.y * 64, first_column = blockIdx.x * 64;
    float of_a[4], of_b[4];  // this thread's part of a tile of A and of B, on its way to shared memory
    float sums[4][4] = {};
    // Global memory to registers: the tiles that begin at `first` along k. Beyond the matrices it reads nothing, and gives zeros.
    auto load = [&](unsigned first) {
        for (unsigned s = 0; s < 4; ++s) {
            unsigned at = thread + 256 * s;
            unsigned row = first_row + at / 16, i = first + at % 16;
            of_a[s] = row < m && i < k ? a[row * k + i] : 0.0f;
            unsigned j = first + at / 64, column = first_column + at % 64;
            of_b[s] = j < k && column < n ? b[j * n + column] : 0.0f;
        }
    };
    // Registers to shared memory.
    auto store = [&](unsigned which) {
        for (unsigned s = 0; s < 4; ++s) {
            unsigned at = thread + 256 * s;
            a_tiles[which][at / 16][at % 16] = of_a[s];
            b_tiles[which][at / 64][at % 64] = of_b[s];
        }
    };
    // 16 steps along k.
    auto multiply = [&](unsigned which) {
        for (unsigned i = 0; i < 16; ++i) {
            float rows[4], columns[4];
            for (unsigned r = 0; r < 4; ++r) {
                rows[r] = a_tiles[which][y + 16 * r][i];
                columns[r] = b_tiles[which][i][x + 16 * r];
            }
            for (unsigned r = 0; r < 4; ++r) {
                for (unsigned s = 0; s < 4; ++s) {
                    sums[r][s] += rows[r] * columns[s];
                }
            }
        }
    };
    for (unsigned first = 0; first < k; first += 32) {
        load(first);
        store(0);
        load(first + 16);
        store(1);
        __syncthreads();
        multiply(0);
        multiply(1);
        __syncthreads();
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
