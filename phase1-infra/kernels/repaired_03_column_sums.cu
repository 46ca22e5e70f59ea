// The sum of each column of a row-major matrix: one thread per column, so neighbouring lanes read neighbouring values.
// run: broken 03 --repaired

// ANCHOR: kernel
extern "C" __global__ void column_sums(const float *matrix, float *sums, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < columns) {
        // ANCHOR: repair
        sums[column] = 0.0f;
        // ANCHOR_END: repair
        for (unsigned row = 0; row < rows; ++row) {
            sums[column] += matrix[row * columns + column];
        }
    }
}
// ANCHOR_END: kernel
