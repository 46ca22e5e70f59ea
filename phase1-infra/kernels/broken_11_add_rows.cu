// Adds rows that are in separate buffers: a table in device memory holds their addresses.
// run: broken 11
// ANCHOR: kernel
// One thread.
extern "C" __global__ void set_row(const float **table, unsigned row, const float *values) {
    table[row] = values;
}

extern "C" __global__ void add_rows(const float *const *table, float *sums, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < columns) {
        float sum = 0.0f;
        for (unsigned row = 0; row < rows; ++row) {
            sum += table[row][column];
        }
        sums[column] = sum;
    }
}
// ANCHOR_END: kernel
