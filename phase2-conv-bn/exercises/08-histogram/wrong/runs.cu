// Right values, but each thread takes a run of neighbouring values: the lanes of a warp read far apart.

extern "C" __global__ void histogram(const int *bins, int *counts, unsigned n) {
    __shared__ int own[64];
    if (threadIdx.x < 64) {
        own[threadIdx.x] = 0;
    }
    __syncthreads();  // all counters are zero
    unsigned each = (n + gridDim.x * 256 - 1) / (gridDim.x * 256), first = (blockIdx.x * 256 + threadIdx.x) * each;
    for (unsigned i = first; i < min(first + each, n); ++i) {
        atomicAdd(&own[bins[i]], 1);
    }
    __syncthreads();  // all values are counted
    if (threadIdx.x < 64) {
        atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
    }
}
