// Transposes a matrix through shared memory: a block loads a tile by rows, and stores it by columns of the tile, which are rows of y.
//
//     x                  tile                  y
//     a b c   → rows →   a b c   → columns →   a d g
//     d e f              d e f                 b e h
//     g h i              g h i                 c f i
//
// Limited by bank conflicts: the 32 values of a column of the tile lie in one bank, so a warp's load takes 32 passes.
// run: transpose // trial: transpose

constexpr unsigned TILE = 32;
// Rows of threads in a block, each of which takes TILE / THREAD_ROWS values of a column.
constexpr unsigned THREAD_ROWS = 8;
// Words from a row of the tile to the next.
constexpr unsigned PITCH = TILE;

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
