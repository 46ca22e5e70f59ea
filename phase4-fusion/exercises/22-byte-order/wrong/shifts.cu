// Right values, but by shifts and masks.

extern "C" __global__ void swap_bytes(const int *x, int *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        int value = x[i];
        unsigned word = value, turned = 0;
        for (int byte = 0; byte < 4; ++byte) {
            asm volatile("bfi.b32 %0, %1, %0, %2, 8;" : "+r"(turned) : "r"(word >> 8 * byte), "r"(24 - 8 * byte));
        }
        value = turned;
        y[i] = value;
    }
}
