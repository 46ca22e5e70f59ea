// Right values, but each thread loads its own point: the shared array changes nothing.

extern "C" __global__ void split(const float *points, float *x, float *y, float *z, unsigned n) {
    __shared__ float block[3 * 256];
    unsigned first = blockIdx.x * 256;
    unsigned count = min(256u, n - first);
    if (threadIdx.x < count) {
        for (unsigned k = 3 * threadIdx.x; k < 3 * threadIdx.x + 3; ++k) {
            block[k] = points[3 * first + k];
        }
    }
    __syncthreads();
    if (threadIdx.x < count) {
        unsigned i = first + threadIdx.x;
        x[i] = block[3 * threadIdx.x];
        y[i] = block[3 * threadIdx.x + 1];
        z[i] = block[3 * threadIdx.x + 2];
    }
}
