// Right values, but each byte is loaded and stored by itself.

extern "C" __global__ void swap_bytes(const int *x, int *y, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        const char *from = reinterpret_cast<const char *>(x + i);
        char *to = reinterpret_cast<char *>(y + i);
        for (int k = 0; k < 4; ++k) {
            to[k] = from[3 - k];
        }
    }
}
