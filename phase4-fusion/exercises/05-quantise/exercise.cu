// For each row: scale = max |x| / 127, and q = x / scale rounded to the nearest integer, ties to even. A row has at most 256 columns,
// and one that is not 0.
//
// One warp per row: blocks have 32 × 4 threads, and threadIdx.y says which of the block's four rows.

extern "C" __global__ void quantise(const float *x, signed char *q, float *scales, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    x += row * columns;
    q += row * columns;
    float values[8], most = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[k] = column < columns ? x[column] : 0.0f;
        most = fmaxf(most, fabsf(values[k]));
    }
    // Your code: the scale of the row, from the largest absolute value of all lanes. Then round.
    float scale = 1.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        if (column < columns) {
            q[column] = static_cast<signed char>(values[k] / scale);
        }
    }
    if (threadIdx.x == 0) {
        scales[row] = scale;
    }
}
