// All 32 bits are reversed, not the four bytes.

extern "C" __global__ void swap_bytes(const int *x, int *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        int value = x[i];
        asm("brev.b32 %0, %0;" : "+r"(value));
        y[i] = value;
    }
}
