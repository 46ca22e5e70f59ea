// Checks a product of gau-nernst/learn-cuda, `02e_matmul_sm100`, which is a function `KERNEL` of another file: C = A · Bᵀ in bf16, against f64.

#include <cuda_bf16.h>

#include <cmath>
#include <cstdio>
#include <vector>

void KERNEL(const nv_bfloat16 *A, const nv_bfloat16 *B, nv_bfloat16 *C, int M, int N, int K);

int main() {
    const int m = 512, n = 512, k = 512;
    std::vector<nv_bfloat16> host[3] = {std::vector<nv_bfloat16>(m * k), std::vector<nv_bfloat16>(n * k), std::vector<nv_bfloat16>(m * n)};
    nv_bfloat16 *device[3];
    unsigned state = 1;
    for (int i = 0; i < 2; ++i)
        for (auto &x : host[i]) {
            state = state * 1664525u + 1013904223u;
            x = (float)((int)(state >> 24) % 7 - 3) / 4;
        }
    for (int i = 0; i < 3; ++i) {
        cudaMalloc(&device[i], host[i].size() * sizeof(nv_bfloat16));
        cudaMemcpy(device[i], host[i].data(), host[i].size() * sizeof(nv_bfloat16), cudaMemcpyHostToDevice);
    }
    cudaMemset(device[2], 0xff, host[2].size() * sizeof(nv_bfloat16)); // NaN
    KERNEL(device[0], device[1], device[2], m, n, k);
    if (cudaError_t error = cudaDeviceSynchronize()) return printf("%s\n", cudaGetErrorString(error)), 1;
    cudaMemcpy(host[2].data(), device[2], host[2].size() * sizeof(nv_bfloat16), cudaMemcpyDeviceToHost);
    for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column) {
            double sum = 0;
            for (int i = 0; i < k; ++i) sum += (double)(float)host[0][row * k + i] * (double)(float)host[1][column * k + i];
            float found = host[2][row * n + column];
            // bf16 has 8 bits.
            if (!(std::fabs(found - sum) <= std::fabs(sum) / 256)) return printf("row %d, column %d: %g, not %g\n", row, column, found, sum), 1;
        }
    return puts("right"), 0;
}
