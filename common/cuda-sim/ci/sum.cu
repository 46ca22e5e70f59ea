// Adds up an array: each block its part in shared memory, and one atomic addition per block. Says whether the sum is right.
#include <cstdio>
#include <vector>

// ANCHOR: kernel
__global__ void sum(const int *x, int *total, int n) {
    __shared__ int part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    for (int step = 128; step > 0; step /= 2) {
        if (step >= 32) {
            __syncthreads();
        }
        if (threadIdx.x < step) {
            part[threadIdx.x] += part[threadIdx.x + step];
        }
    }
    if (threadIdx.x == 0) {
        atomicAdd(total, part[0]);
    }
}
// ANCHOR_END: kernel

int main() {
    const int n = 100000;
    std::vector<int> x(n);
    int expected = 0, total = 0;
    for (int i = 0; i < n; ++i) {
        x[i] = i % 1000;
        expected += x[i];
    }
    int *x_there, *total_there;
    cudaMalloc(&x_there, n * sizeof(int));
    cudaMalloc(&total_there, sizeof(int));
    cudaMemcpy(x_there, x.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemset(total_there, 0, sizeof(int));
    sum<<<(n + 255) / 256, 256>>>(x_there, total_there, n);
    cudaError_t error = cudaMemcpy(&total, total_there, sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(x_there);
    cudaFree(total_there);
    if (error != cudaSuccess || total != expected) {
        printf("wrong: %d, expected %d (%s)\n", total, expected, cudaGetErrorString(error));
        return 1;
    }
    printf("right\n");
}
