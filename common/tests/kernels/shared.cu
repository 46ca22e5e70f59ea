// Reverses n floats inside one block, through dynamic shared memory of n floats.
extern "C" __global__ void reverse(float *values, unsigned n) {
    extern __shared__ float tile[];
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        tile[i] = values[i];
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        values[i] = tile[n - 1 - i];
    }
}

// A kernel that no more than 128 threads per block may run.
extern "C" __global__ void __launch_bounds__(128) bounded(unsigned *counter) {
    atomicAdd(counter, 1u);
}
