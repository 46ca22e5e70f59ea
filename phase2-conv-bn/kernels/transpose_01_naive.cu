// Transposes a matrix: a thread per value. Neighbours read neighbours, and write a column.
//
//     x, row-major              y, row-major
//     a b c d  ← one request    a . .
//     . . . .                   b . .      ← four sectors, of which each
//     . . . .                   c . .        gets 4 bytes of its 32
//                               d . .
//
// Limited by the stores: a warp's 128 bytes go to 32 sectors.
// run: transpose // trial: transpose
constexpr unsigned TILE = 32;
// Rows of threads in a block, each of which takes TILE / THREAD_ROWS values of a column.
constexpr unsigned THREAD_ROWS = 8;

// x: [rows, columns]; y: [columns, rows], both row-major. A block of [THREAD_ROWS, TILE] threads per tile, tiles in the order of x.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREAD_ROWS *TILE)
    transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned tiles_across = (columns + TILE - 1) / TILE;
    unsigned column = blockIdx.x % tiles_across * TILE + threadIdx.x;
    unsigned first_row = blockIdx.x / tiles_across * TILE;
    for (unsigned j = threadIdx.y; j < TILE; j += THREAD_ROWS) {
        unsigned row = first_row + j;
        if (row < rows && column < columns) {
            y[static_cast<size_t>(column) * rows + row] = x[static_cast<size_t>(row) * columns + column];
        }
    }
}
// ANCHOR_END: kernel
