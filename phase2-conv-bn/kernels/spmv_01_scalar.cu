// A sparse matrix times a vector, y = A·x, with the rows' non-zeros one after another (CSR): a thread per row.
//
//     lane 0   row 0 │ a a a          starts = [0, 3, 4, 9, …]: row r has the non-zeros starts[r] to starts[r + 1]
//     lane 1   row 1 │ a              at a time, the lanes of a warp read non-zeros that are a row's length apart
//     lane 2   row 2 │ a a a a a
//
// Limited by sectors, of which a warp touches one for each lane; and by the longest row, for which one thread works alone.
// run: spmv // trial: spmv
constexpr unsigned THREADS = 256;

// starts: [rows + 1]; columns and values: [starts[rows]]; x: [columns of A]; y: [rows]. A thread per row.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    spmv(const unsigned *starts, const unsigned *columns, const float *values, const float *x, float *y, unsigned rows) {
    unsigned row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) {
        return;
    }
    float sum = 0.0f;
    for (unsigned i = starts[row]; i < starts[row + 1]; i++) {
        sum += values[i] * x[columns[i]];
    }
    y[row] = sum;
}
// ANCHOR_END: kernel
