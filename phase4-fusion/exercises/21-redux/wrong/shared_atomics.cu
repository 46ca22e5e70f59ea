// Right values, but the lanes add by atomics in shared memory.

extern "C" __global__ void warp_sum(const int *x, int *sums, unsigned n) {
    __shared__ int totals[4];
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    int value = i < n ? x[i] : 0;
    totals[threadIdx.x / 32] = 0;
    __syncwarp();
    atomicAdd(&totals[threadIdx.x / 32], value);
    __syncwarp();
    int sum = totals[threadIdx.x / 32];
    if (threadIdx.x % 32 == 0 && i < n) {
        sums[i / 32] = sum;
    }
}
