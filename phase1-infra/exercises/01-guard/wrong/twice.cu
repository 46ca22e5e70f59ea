// Right values, but each is also written before it is known.

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        *(volatile float *)&c[i] = 0.0f;
        c[i] = a[i] + b[i];
    }
}
