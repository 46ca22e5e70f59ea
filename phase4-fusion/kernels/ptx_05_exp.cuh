// Softmax of each row, a warp per row: the maximum, the sum of e^(x − max), the quotients. The file that includes this says
// how a power is computed: `power`.
// run: ptx
#pragma once

// Prepares a row's maximum for `power`, once per row.
__device__ float prepare(float most);

// e^(x − max), with what `prepare` made of the maximum.
__device__ float power(float x, float prepared);

// x, y: [rows, columns].
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) softmax(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned lane = threadIdx.x % 32;
    if (row >= rows) {
        return;  // all lanes of the warp
    }
    x += (size_t)row * columns;
    y += (size_t)row * columns;
    float most = __int_as_float(0xff800000);  // −∞
    for (unsigned c = lane; c < columns; c += 32) {
        most = fmaxf(most, x[c]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
    float prepared = prepare(most);
    float sum = 0.0f;
    for (unsigned c = lane; c < columns; c += 32) {
        sum += power(x[c], prepared);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    float share = 1.0f / sum;
    for (unsigned c = lane; c < columns; c += 32) {
        y[c] = share * power(x[c], prepared);
    }
}
// ANCHOR_END: kernel
