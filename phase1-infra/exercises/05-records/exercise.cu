// Splits n points (x, y, z), side by side in memory, into three arrays.
//
// One thread per point, in blocks of 256.

extern "C" __global__ void split(const float *points, float *x, float *y, float *z, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        // Your code: right values, but how many sectors do the 32 loads of a warp touch? Go through shared memory.
        x[i] = points[3 * i];
        y[i] = points[3 * i + 1];
        z[i] = points[3 * i + 2];
    }
}
