// Kernels for the tests of the command: structs with pointers, variables of the module, mangled names.

struct View {
    const float* data;
    unsigned char offset;
    int count;
    double scale;
};

__constant__ float weights[4];
__device__ int total;

// out[i] = scale · data[offset + i] for i < count
__global__ void scaled(View view, float* out) {
    int i = threadIdx.x;
    if (i < view.count) out[i] = float(view.scale) * view.data[view.offset + i];
}

__global__ void weigh(const float* x, float* y, const float* bias) {
    int i = threadIdx.x;
    y[i] = x[i] * weights[i % 4] + (bias ? bias[i] : 0.f);
    atomicAdd(&total, 1);
}

template <typename T>
__global__ void fill(T* out, T value) {
    out[threadIdx.x] = value;
}
template __global__ void fill(int*, int);
template __global__ void fill(float*, float);
