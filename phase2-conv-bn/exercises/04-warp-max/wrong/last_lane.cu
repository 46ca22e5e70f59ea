// __shfl_down_sync gathers the maximum in lane 0, but lane 31 writes.

extern "C" __global__ void row_max(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    float most = __int_as_float(0xff800000);  // −∞
    for (unsigned column = lane; column < columns; column += 32) {
        most = fmaxf(most, x[row * columns + column]);
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_down_sync(0xffffffff, most, distance));
    }
    if (lane == 31) {
        y[row] = most;
    }
}
