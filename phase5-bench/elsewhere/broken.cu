// Six of the gallery of broken kernels (phase 1) in a program for NVIDIA's tools, with the gallery's sizes.
//
//     nvcc -O3 -lineinfo -o broken phase5-bench/elsewhere/broken.cu && compute-sanitizer --tool racecheck ./broken 01
//     nvcc -g -G -o broken_debug phase5-bench/elsewhere/broken.cu && cuda-gdb --args ./broken_debug 10
//
// It prints what a program without a tool notices: whether the values are right, or an error. -lineinfo lets a report name lines of
// optimised code; -G keeps all variables for the debugger and turns the optimisation off.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../../phase1-infra/kernels/broken_01_difference.cu"
#include "../../phase1-infra/kernels/broken_02_scale.cu"
#include "../../phase1-infra/kernels/broken_03_column_sums.cu"
#include "../../phase1-infra/kernels/broken_06_block_sum.cu"
#include "../../phase1-infra/kernels/broken_07_warp_sum.cu"
#include "../../phase1-infra/kernels/broken_10_frame.cu"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));    \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

using Values = std::vector<float>;

Values random_values(size_t n) {
    Values values(n);
    for (float &value : values) value = std::rand() * (2.0f / RAND_MAX) - 1.0f;
    return values;
}

float *upload(const Values &values) {
    float *device;
    CHECK(cudaMalloc(&device, values.size() * sizeof(float)));
    CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    return device;
}

// `size` floats for a kernel to write, set to nothing.
float *allocate(size_t size) {
    float *device;
    CHECK(cudaMalloc(&device, size * sizeof(float)));
    return device;
}

// Waits for the kernel, compares what it wrote with `expected`, and frees x and y.
bool right(float *x, float *y, const Values &expected) {
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    Values values(expected.size());
    CHECK(cudaMemcpy(values.data(), y, values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    for (size_t i = 0; i < values.size(); i++) {
        if (!(std::fabs(values[i] - expected[i]) <= 1e-4f)) return false;  // NaN is never within bounds
    }
    return true;
}

bool run_difference() {
    const unsigned rows = 5, columns = 200;
    Values x = random_values(rows * columns), expected = x;
    for (unsigned i = 0; i < x.size(); i++) expected[i] -= i % columns ? x[i - 1] : 0.0f;
    float *device_x = upload(x), *y = allocate(x.size());
    difference<<<rows, 256>>>(device_x, y, columns);
    return right(device_x, y, expected);
}

bool run_scale() {
    const unsigned n = 1001;
    Values x = random_values(n), expected = x;
    for (float &value : expected) value *= 0.7f;
    float *device_x = upload(x), *y = allocate(n);
    scale<<<1, 256>>>(device_x, y, 0.7f, n);
    return right(device_x, y, expected);
}

bool run_column_sums() {
    const unsigned rows = 100, columns = 53;
    Values x = random_values(rows * columns), expected(columns);
    for (unsigned i = 0; i < x.size(); i++) expected[i % columns] += x[i];
    float *device_x = upload(x), *y = allocate(columns);
    column_sums<<<1, 256>>>(device_x, y, rows, columns);
    return right(device_x, y, expected);
}

template <typename Kernel> bool run_sums(Kernel kernel, unsigned run) {
    const unsigned n = 1000, blocks = (n + run - 1) / run;
    Values x = random_values(n), expected(blocks);
    for (unsigned i = 0; i < n; i++) expected[i / run] += x[i];
    float *device_x = upload(x), *y = allocate(blocks);
    kernel<<<blocks, run>>>(device_x, y, n);
    return right(device_x, y, expected);
}

bool run_frame() {
    const unsigned start = 441, quads = 75;
    Values x = random_values(start + 4 * quads), expected(x.begin() + start, x.end());
    float *device_x = upload(x), *y = allocate(4 * quads);
    frame<<<1, 256>>>(device_x, y, start, quads);
    return right(device_x, y, expected);
}

int main(int count, char **arguments) {
    std::string number = count == 2 ? arguments[1] : "";
    bool values_are_right;
    if (number == "01") {
        values_are_right = run_difference();
    } else if (number == "02") {
        values_are_right = run_scale();
    } else if (number == "03") {
        values_are_right = run_column_sums();
    } else if (number == "06") {
        values_are_right = run_sums(block_sum, 256);
    } else if (number == "07") {
        values_are_right = run_sums(warp_sum, 32);
    } else if (number == "10") {
        values_are_right = run_frame();
    } else {
        std::fprintf(stderr, "usage: %s 01|02|03|06|07|10\n", arguments[0]);
        return 2;
    }
    std::printf("%s: the values are %s\n", number.c_str(), values_are_right ? "right" : "wrong");
    return values_are_right ? 0 : 1;
}
