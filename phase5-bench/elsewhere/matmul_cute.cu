// The register-tile product (step 5 of the GEMM ladder) in CuTe, which CUTLASS is built on: layouts instead of index arithmetic.
//
//     nvcc -O3 -std=c++17 -arch=native -I cutlass/include -o matmul_cute phase5-bench/elsewhere/matmul_cute.cu
//     ./matmul_cute
//
// A, B and C are row-major, f32; M, N and K are multiples of the tile, since edges would need predicates (cute::copy_if).
// It checks rows of the product against f64, then times it beside step 5, whose file and constants it uses.
#include <cute/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../phase2-conv-bn/kernels/gemm_05_register_tile.cu"  // gemm, BM, BN, BK, TM, TN, THREADS, BLOCKS

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));    \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

using cute::_;
using cute::_1;
using cute::Int;
using cute::make_coord;
using cute::make_layout;
using cute::make_shape;
using cute::make_stride;
using cute::make_tensor;
using cute::Step;
using cute::X;

// Which rows and columns of a block's tile a thread owns: TM × TN neighbours as in step 5, or every 16th.
enum Owns { NEIGHBOURS, EVERY_16TH };

// ANCHOR: block
template <Owns OWNS>
__global__ void __launch_bounds__(THREADS, BLOCKS) gemm_cute(const float *a, const float *b, float *c, int m, int n, int k) {
    // A tensor is a pointer and a layout: a shape, and a stride for each of its modes. B[K, N] is seen as [N, K].
    auto A = make_tensor(cute::make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
    auto B = make_tensor(cute::make_gmem_ptr(b), make_shape(n, k), make_stride(_1{}, n));
    auto C = make_tensor(cute::make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));

    // This block's part of each. The third mode of `from_a` and `from_b` counts the steps along K.
    auto tile = make_shape(Int<BM>{}, Int<BN>{}, Int<BK>{});
    auto block = make_coord(blockIdx.y, blockIdx.x, _);
    auto from_a = local_tile(A, tile, block, Step<_1, X, _1>{});  // [BM, BK, K / BK]
    auto from_b = local_tile(B, tile, block, Step<X, _1, _1>{});  // [BN, BK, K / BK]
    auto to_c = local_tile(C, tile, block, Step<_1, _1, X>{});    // [BM, BN]
    // ANCHOR_END: block

    // ANCHOR: copies
    __shared__ __align__(16) float a_memory[BM * BK], b_memory[BK * BN];
    auto a_tile = make_tensor(cute::make_smem_ptr(a_memory), make_shape(Int<BM>{}, Int<BK>{}), make_stride(Int<BK>{}, _1{}));
    auto b_tile = make_tensor(cute::make_smem_ptr(b_memory), make_shape(Int<BN>{}, Int<BK>{}), make_stride(_1{}, Int<BN>{}));

    // Who copies what: threads side by side along the mode that is contiguous in global memory.
    auto a_threads = make_layout(make_shape(Int<THREADS / BK>{}, Int<BK>{}), make_stride(Int<BK>{}, _1{}));
    auto b_threads = make_layout(make_shape(Int<BN>{}, Int<THREADS / BN>{}));
    auto my_from_a = local_partition(from_a, a_threads, threadIdx.x);  // [8, 1, K / BK]
    auto my_from_b = local_partition(from_b, b_threads, threadIdx.x);  // [1, 8, K / BK]
    auto my_a_tile = local_partition(a_tile, a_threads, threadIdx.x);
    auto my_b_tile = local_partition(b_tile, b_threads, threadIdx.x);
    // ANCHOR_END: copies

    // ANCHOR: threads
    // Who multiplies what: a thread's rows of A, columns of B, and TM × TN of C.
    auto threads = make_layout(make_shape(Int<BM / TM>{}, Int<BN / TN>{}), make_stride(Int<BN / TN>{}, _1{}));
    auto mine = [&](auto tensor, auto modes) {
        if constexpr (OWNS == NEIGHBOURS) {
            auto square = make_shape(Int<TM>{}, Int<TN>{});
            auto at = make_coord(threadIdx.x / (BN / TN), threadIdx.x % (BN / TN));
            return local_tile(tensor, dice(modes, square), dice(modes, at));
        } else {
            return local_partition(tensor, threads, threadIdx.x, modes);
        }
    };
    auto rows = mine(a_tile, Step<_1, X>{});     // [TM, BK]
    auto columns = mine(b_tile, Step<X, _1>{});  // [TN, BK]
    auto my_c = mine(to_c, Step<_1, _1>{});      // [TM, TN]
    auto sums = make_tensor_like(my_c);          // in registers
    clear(sums);

    for (int step = 0; step < cute::size<2>(my_from_a); step++) {
        copy(my_from_a(_, _, step), my_a_tile);
        copy(my_from_b(_, _, step), my_b_tile);
        __syncthreads();              // the tiles are complete
        gemm(rows, columns, sums);    // sums[r][s] += Σᵢ rows[r][i] · columns[s][i]
        __syncthreads();              // all threads are done with them
    }
    copy(sums, my_c);
}
// ANCHOR_END: threads

using Kernel = void (*)(const float *, const float *, float *, int, int, int);

// Checks every `every`-th row of the product against f64, then returns the median time of a launch in ms, of `runs`.
float check_and_time(const char *name, Kernel kernel, int m, int n, int k, int every, int runs) {
    if (m % BM || n % BN || k % BK) {
        std::fprintf(stderr, "%d × %d × %d: M, N and K must be multiples of %d, %d and %d\n", m, n, k, BM, BN, BK);
        std::exit(1);
    }
    std::vector<float> a((size_t)m * k), b((size_t)k * n), c((size_t)m * n);
    for (float &value : a) value = std::rand() * (2.0f / RAND_MAX) - 1.0f;
    for (float &value : b) value = std::rand() * (2.0f / RAND_MAX) - 1.0f;
    float *device_a, *device_b, *device_c;
    CHECK(cudaMalloc(&device_a, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&device_b, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&device_c, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(device_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_c, 0xff, c.size() * sizeof(float)));  // NaN in each element

    std::vector<float> times;
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int run = 0; run < runs + 3; run++) {  // the first three warm up
        CHECK(cudaEventRecord(begin));
        kernel<<<dim3(n / BN, m / BM), THREADS>>>(device_a, device_b, device_c, m, n, k);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (run >= 3) times.push_back(ms);
    }

    CHECK(cudaMemcpy(c.data(), device_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (void *memory : {device_a, device_b, device_c}) CHECK(cudaFree(memory));
    for (int row = 0; row < m; row += every) {
        std::vector<double> sums(n), sizes(n);
        for (int i = 0; i < k; i++) {
            double from_a = a[(size_t)row * k + i];
            for (int column = 0; column < n; column++) {
                double product = from_a * b[(size_t)i * n + column];
                sums[column] += product;
                sizes[column] += std::fabs(product);
            }
        }
        for (int column = 0; column < n; column++) {
            float value = c[(size_t)row * n + column];
            if (!(std::fabs(value - sums[column]) <= k * 0x1p-24 * sizes[column])) {  // NaN is never within bounds
                std::fprintf(stderr, "%s, row %d, column %d: %g, not %g\n", name, row, column, value, sums[column]);
                std::exit(1);
            }
        }
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

int main() {
    const int size = 4096;
    std::pair<const char *, Kernel> kernels[] = {
        {"step 5", gemm},
        {"CuTe, neighbours", gemm_cute<NEIGHBOURS>},
        {"CuTe, every 16th", gemm_cute<EVERY_16TH>},
    };
    for (auto [name, kernel] : kernels) {
        check_and_time(name, kernel, 3 * BM, 2 * BN, 5 * BK, 1, 1);
        float ms = check_and_time(name, kernel, size, size, size, 509, 20);
        cudaFuncAttributes attributes;
        CHECK(cudaFuncGetAttributes(&attributes, kernel));
        std::printf("%-17s %7.3f ms %6.1f TFLOP/s %4d registers, right\n", name, ms, 2.0 * size * size * size / ms / 1e9,
                    attributes.numRegs);
    }
}
