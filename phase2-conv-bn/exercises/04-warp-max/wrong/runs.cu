// Right values, but each lane takes a run of neighbouring values: the lanes of a warp read far apart.

extern "C" __global__ void row_max(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    float most = __int_as_float(0xff800000);  // −∞
    unsigned each = (columns + 31) / 32;
    for (unsigned column = lane * each; column < lane * each + each && column < columns; ++column) {
        most = fmaxf(most, x[row * columns + column]);
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
    if (lane == 0) {
        y[row] = most;
    }
}
