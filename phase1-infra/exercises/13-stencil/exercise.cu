// One step of heat in a plane of rows × columns cells, row-major: a tenth of each difference to the cells above, below, left and right
// flows into a cell. A neighbour outside the plane is as warm as the cell itself.
//
// Blocks have 64 threads. Each thread goes down 16 rows of one column; the grid has a block for every 64 columns and 16 rows.

extern "C" __global__ void heat(const float *now, float *next, unsigned rows, unsigned columns) {
    unsigned x = blockIdx.x * 64 + threadIdx.x, first = blockIdx.y * 16;
    if (x >= columns) {
        return;
    }
    unsigned end = min(first + 16, rows);
    unsigned left = x > 0 ? x - 1 : x, right = x + 1 < columns ? x + 1 : x;  // at a wall, the cell itself
    // Your code: what a thread knows before its first row.
    for (unsigned y = first; y < end; ++y) {
        const float *row = now + y * columns;
        // Your code: load one cell of this column, and the two beside it. Write next[y * columns + x], and keep what the next row needs.
    }
}
