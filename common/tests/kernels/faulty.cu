// Kernels with a mistake each. They are for the simulator: on a GPU they would take the process's context down with them.
extern "C" __global__ void out_of_bounds(float *values, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) {
        values[i] = 1.0f;
    }
}

extern "C" __global__ void endless(volatile unsigned *flag) {
    while (*flag == 0) {
    }
}
