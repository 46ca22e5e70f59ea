// The guard lets one word more through.

extern "C" __global__ void swap_bytes(const int *x, int *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i <= n) {
        int value = x[i];
        asm("prmt.b32 %0, %0, 0, 0x0123;" : "+r"(value));
        y[i] = value;
    }
}
