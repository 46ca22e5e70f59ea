// Kernels of the tests' client, compiled by common/ptx-sim/tests/kernels/compile.py.

// out[i] = a[i] + b[i], for i below n.
extern "C" __global__ void add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = a[i] + b[i];
    }
}

// Reverses the values of a block, without the barrier that this takes.
extern "C" __global__ void reverse_race(float *values) {
    __shared__ float tile[64];
    tile[threadIdx.x] = values[threadIdx.x];
    values[threadIdx.x] = tile[63 - threadIdx.x];
}

// Writes behind the end of n values.
extern "C" __global__ void overrun(float *values, int n) {
    values[n] = 1.0f;
}

// Says who it is.
extern "C" __global__ void greet(const float *, int n) {
    printf("thread %d of %d\n", threadIdx.x, n);
}

// values[i] = scale * values[i], for i below n; counts them.
__constant__ float scale;
__managed__ int count;
extern "C" __global__ void scaled(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] *= scale;
        atomicAdd(&count, 1);
    }
}
