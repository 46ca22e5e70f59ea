// Right values without shared memory: every product fetches both of its factors.

extern "C" __global__ void product(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k) {
    unsigned row = blockIdx.y * 32 + threadIdx.y;
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    if (row < m && column < n) {
        float sum = 0.0f;
        for (unsigned i = 0; i < k; ++i) {
            sum += a[row * k + i] * b[i * n + column];
        }
        c[row * n + column] = sum;
    }
}
