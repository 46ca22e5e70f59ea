// The first kernel as a whole program in CUDA C++: `nvcc -O3 -o vector_add vector_add.cu && ./vector_add`.
//
// src/step04_vector_add.rs does the same in Rust.
#include <cstdio>
#include <cstdlib>
#include <vector>

// ANCHOR: check
#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));    \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)
// ANCHOR_END: check

// ANCHOR: kernel
__global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
// ANCHOR_END: kernel

// ANCHOR: main
int main() {
    const unsigned n = 1000003;
    const size_t bytes = n * sizeof(float);
    std::vector<float> a(n), b(n), c(n);
    for (unsigned i = 0; i < n; i++) {
        a[i] = std::rand() / float(RAND_MAX);
        b[i] = std::rand() / float(RAND_MAX);
    }

    float *device_a, *device_b, *device_c;
    CHECK(cudaMalloc(&device_a, bytes));
    CHECK(cudaMalloc(&device_b, bytes));
    CHECK(cudaMalloc(&device_c, bytes));
    CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_c, 0xff, bytes));  // NaN in each element

    const unsigned block = 256;
    const unsigned grid = (n + block - 1) / block;
    vector_add<<<grid, block>>>(device_a, device_b, device_c, n);
    CHECK(cudaGetLastError());       // was it launched?
    CHECK(cudaDeviceSynchronize());  // did it end well?

    CHECK(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));
    for (unsigned i = 0; i < n; i++) {
        if (c[i] != a[i] + b[i]) {
            std::printf("element %u: %f, not %f\n", i, c[i], a[i] + b[i]);
            return 1;
        }
    }
    std::printf("%u sums, all right\n", n);
}
// ANCHOR_END: main
