// Right values, but each thread takes a run of neighbouring elements: a warp's accesses lie far apart.

extern "C" __global__ void saxpy(float factor, const float *x, float *y, unsigned n) {
    unsigned threads = gridDim.x * blockDim.x;
    unsigned each = (n + threads - 1) / threads;
    unsigned first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
    for (unsigned i = first; i < first + each && i < n; ++i) {
        y[i] = factor * x[i] + y[i];
    }
}
