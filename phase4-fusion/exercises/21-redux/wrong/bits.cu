// The bits are combined by `or`, not added.

extern "C" __global__ void warp_sum(const int *x, int *sums, unsigned n) {
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    int value = i < n ? x[i] : 0;
    int sum;
    asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(value));
    if (threadIdx.x % 32 == 0 && i < n) {
        sums[i / 32] = sum;
    }
}
