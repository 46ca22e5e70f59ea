// Each 32-bit word with its four bytes in reverse order. One thread per word, in blocks of 256.

extern "C" __global__ void swap_bytes(const int *x, int *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        int value = x[i];
        // Your code: the bytes in reverse order, with `prmt`.
        y[i] = value;
    }
}
