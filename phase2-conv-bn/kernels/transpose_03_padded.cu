// Transposes a matrix through shared memory, with a word of padding after each row of the tile.
//
//     bank of tile[row][column] with PITCH 33:  (33·row + column) mod 32 = (row + column) mod 32
//
//         row 0    0  1  2  …  31
//         row 1    1  2  3  …   0        along a row and along a column: 32 different banks
//         row 2    2  3  4  …   1
//
// Limited by memory.
// run: transpose // trial: transpose

constexpr unsigned TILE = 32;
// Rows of threads in a block, each of which takes TILE / THREAD_ROWS values of a column.
constexpr unsigned THREAD_ROWS = 8;
// Words from a row of the tile to the next.
constexpr unsigned PITCH = TILE + 1;

// x: [rows, columns]; y: [columns, rows], both row-major. A block of [THREAD_ROWS, TILE] threads per tile, tiles in the order of x.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREAD_ROWS *TILE)
    transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ float tile[TILE][PITCH];
    unsigned tiles_across = (columns + TILE - 1) / TILE;
    unsigned first_column = blockIdx.x % tiles_across * TILE;
    unsigned first_row = blockIdx.x / tiles_across * TILE;
    for (unsigned j = threadIdx.y; j < TILE; j += THREAD_ROWS) {
        unsigned row = first_row + j, column = first_column + threadIdx.x;
        if (row < rows && column < columns) {
            tile[j][threadIdx.x] = x[static_cast<size_t>(row) * columns + column];
        }
    }
    __syncthreads();
    // Now threadIdx.x counts rows of x, which are neighbours in y.
    for (unsigned j = threadIdx.y; j < TILE; j += THREAD_ROWS) {
        unsigned row = first_row + threadIdx.x, column = first_column + j;
        if (row < rows && column < columns) {
            y[static_cast<size_t>(column) * rows + row] = tile[threadIdx.x][j];
        }
    }
}
// ANCHOR_END: kernel
