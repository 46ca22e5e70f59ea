// The selector is the decimal number 123.

extern "C" __global__ void swap_bytes(const int *x, int *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        int value = x[i];
        asm("prmt.b32 %0, %0, 0, 123;" : "+r"(value));
        y[i] = value;
    }
}
