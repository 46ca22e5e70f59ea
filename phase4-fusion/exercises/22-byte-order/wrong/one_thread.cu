// Right values, but one thread of a warp turns all 32 words.

extern "C" __global__ void swap_bytes(const int *x, int *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (threadIdx.x % 32 == 0) {
        for (unsigned k = i; k < min(i + 32, n); ++k) {
            int value = x[k];
            asm("prmt.b32 %0, %0, 0, 0x0123;" : "+r"(value));
            y[k] = value;
        }
    }
}
