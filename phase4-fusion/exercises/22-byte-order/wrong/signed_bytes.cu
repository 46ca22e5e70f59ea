// The digits of the selector have their highest bit set: it copies the sign of each byte.

extern "C" __global__ void swap_bytes(const int *x, int *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        int value = x[i];
        asm("prmt.b32 %0, %0, 0, 0x89ab;" : "+r"(value));
        y[i] = value;
    }
}
