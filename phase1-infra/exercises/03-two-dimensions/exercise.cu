// y[r][c] = x[r][c] + bias[c] for a row-major matrix of rows × columns.
//
// One thread per element: blocks have 32 × 8 threads, and the grid ⌈columns / 32⌉ × ⌈rows / 8⌉ blocks.

extern "C" __global__ void add_row(const float *x, const float *bias, float *y, unsigned rows, unsigned columns) {
    // Your code: which row and which column does this thread take?
    unsigned column = 0, row = 0;
    if (threadIdx.x == 0 && threadIdx.y == 0 && blockIdx.x == 0 && blockIdx.y == 0) {
        y[row * columns + column] = x[row * columns + column] + bias[column];
    }
}
