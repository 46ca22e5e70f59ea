// y[plane][pixel] += v[plane] in place, four values per thread.
//
// y is one run of n = planes · pixels values, from a multiple of 16 bytes on. Blocks have 128 threads, and there are enough of them
// for all whole vectors and for what is left after the last. Neither n nor `pixels` need be a multiple of 4:
//
//     pixels = 7:    0 0 0 0 | 0 0 0 1 | 1 1 1 1 | 1 1 2 2 | 2 …        the plane of each value of a vector

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    unsigned plane = i / pixels, end = (plane + 1) * pixels;  // of the first value; where its plane ends
    float more = v[plane];
    // Your code: a whole vector in one load and one store. Read v again only where a plane ends within the vector.
    y[i] += more;
}
