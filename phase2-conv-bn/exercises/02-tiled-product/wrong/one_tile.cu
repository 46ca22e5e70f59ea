// Right values, but only B goes through shared memory: every product fetches its value of A.

extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k) {
    __shared__ float b_tile[32][32];  // [i][column]
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned row = blockIdx.y * 32 + y;
    unsigned column = blockIdx.x * 32 + x;
    float sum = 0.0f;
    for (unsigned first = 0; first < k; first += 32) {
        b_tile[y][x] = first + y < k && column < n ? b[(first + y) * n + column] : 0.0f;
        __syncthreads();  // the tiles are complete
        for (unsigned i = 0; i < 32; ++i) {
            sum += (row < m && first + i < k ? a[row * k + first + i] : 0.0f) * b_tile[i][x];
        }
        __syncthreads();  // all threads are done with them
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}
