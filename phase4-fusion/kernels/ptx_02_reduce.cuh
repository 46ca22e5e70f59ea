// Sum and maximum of each row of integers, a warp per row. The file that includes this says how 32 lanes become one:
// `warp_sum` and `warp_max`.
// run: ptx
#pragma once

// For all 32 lanes: the sum, and the largest, of what they hold. All of them take part.
__device__ int warp_sum(int value);
__device__ int warp_max(int value);

// x: [rows, columns]. out: [rows, 2], a sum and a maximum (INT_MIN of no columns). A sum wraps at 2³¹.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) reduce(const int *x, int2 *out, unsigned rows, unsigned columns) {
    unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned lane = threadIdx.x % 32;
    if (row >= rows) {
        return;  // all lanes of the warp
    }
    int sum = 0;
    int most = -2147483647 - 1;
    for (unsigned c = lane; c < columns; c += 32) {
        int value = x[(size_t)row * columns + c];
        sum += value;
        most = max(most, value);
    }
    sum = warp_sum(sum);
    most = warp_max(most);
    if (lane == 0) {
        out[row] = make_int2(sum, most);
    }
}
// ANCHOR_END: kernel
