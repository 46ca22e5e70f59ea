// y[i] = factor · x[i] for n values; n is a multiple of 4, and both arrays begin at multiples of 16 bytes.
//
// One thread for every four neighbouring values, in blocks of 256.

extern "C" __global__ void scale(const float *x, float *y, float factor, unsigned n) {
    unsigned first = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (first >= n) {
        return;
    }
    for (unsigned i = first; i < first + 4; ++i) {
        float value;
        asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(x + i));
        y[i] = factor * value; // Your code: the four values with one load and one store, `.v4`.
    }
}
