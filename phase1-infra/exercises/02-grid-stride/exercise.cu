// y[i] = factor · x[i] + y[i] for every i below n, with a grid that does not grow with n: three blocks of 128 threads.

extern "C" __global__ void saxpy(float factor, const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    // Your code: each thread takes its first element here, and then? Neighbouring threads should take neighbouring elements.
    if (i < n) {
        y[i] = factor * x[i] + y[i];
    }
}
