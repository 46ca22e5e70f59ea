// Adds two vectors, one element per thread: c[i] = a[i] + b[i].
//
// Blocks have 256 threads, and there are enough of them for n elements. n need not be a multiple of 256.

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    // Your code: which threads have an element, and what do they do with it?
}
