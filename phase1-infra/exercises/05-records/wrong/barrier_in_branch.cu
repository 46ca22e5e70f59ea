// Threads past the last point load floats too, and leave without coming to the barrier.

extern "C" __global__ void split(const float *points, float *x, float *y, float *z, unsigned n) {
    __shared__ float block[3 * 256];
    unsigned first = blockIdx.x * 256;
    unsigned count = min(256u, n - first);
    for (unsigned i = threadIdx.x; i < 3 * count; i += 256) {
        block[i] = points[3 * first + i];
    }
    if (threadIdx.x < count) {
        __syncthreads();
        unsigned i = first + threadIdx.x;
        x[i] = block[3 * threadIdx.x];
        y[i] = block[3 * threadIdx.x + 1];
        z[i] = block[3 * threadIdx.x + 2];
    }
}
