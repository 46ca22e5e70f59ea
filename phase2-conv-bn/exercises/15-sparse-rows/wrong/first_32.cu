// A lane takes one non-zero: those behind the first 32 are left out.

extern "C" __global__ void sparse_rows(const int *lengths, const int *columns, const float *values, const float *x, float *y,
                                       unsigned rows, unsigned room) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    unsigned length = lengths[row], at = row * room;
    float sum = 0.0f;
    if (lane < length) {
        sum = values[at + lane] * x[columns[at + lane]];
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    if (lane == 0) {
        y[row] = sum;
    }
}
