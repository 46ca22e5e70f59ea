// Right values, but the guard is that of C++: a branch.

extern "C" __global__ void add_one(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = x[i] + 1.0f;
    }
}
