// Transposes each matrix of a batch, [rows, columns] → [columns, rows], in tiles of 32 × 32 through shared memory.
//
//     read  ─▶ rows of the tile, 32 neighbours per warp        Rows of 33 floats put a column of the tile into 32 different
//     write ◀─ columns of it, 32 neighbours per warp again     banks; of 32 floats, into one.
//
// Limited by memory: 8 bytes per value, 12 if it is added.
// run: test sequence // trial: transpose

constexpr unsigned TILE = 32;
constexpr unsigned STEP = 8;  // rows of a tile that the block's 256 threads move at a time

// x: [batch, rows, columns], y: [batch, columns, rows], less than 2³¹ values each.
// ANCHOR: kernel
template <bool ADD> __device__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ float tile[TILE][TILE + 1];
    unsigned across = (columns + TILE - 1) / TILE, tiles = (rows + TILE - 1) / TILE * across;
    unsigned at = blockIdx.x % tiles, first_of_matrix = blockIdx.x / tiles * rows * columns;
    unsigned first_row = at / across * TILE, first_column = at % across * TILE;
    unsigned lane = threadIdx.x % TILE, first = threadIdx.x / TILE;
    for (unsigned i = first; i < TILE; i += STEP) {
        unsigned row = first_row + i, column = first_column + lane;
        if (row < rows && column < columns) {
            tile[i][lane] = x[first_of_matrix + row * columns + column];
        }
    }
    __syncthreads();  // the tile is complete
    for (unsigned i = first; i < TILE; i += STEP) {
        unsigned row = first_row + lane, column = first_column + i;
        if (row < rows && column < columns) {
            float *to = y + first_of_matrix + column * rows + row;
            *to = ADD ? *to + tile[lane][i] : tile[lane][i];
        }
    }
}
// ANCHOR_END: kernel

extern "C" __global__ void __launch_bounds__(TILE * STEP)
    transpose(const float *__restrict__ x, float *__restrict__ y, unsigned rows, unsigned columns) {
    transpose<false>(x, y, rows, columns);
}

extern "C" __global__ void __launch_bounds__(TILE * STEP)
    add_transposed(const float *__restrict__ x, float *__restrict__ y, unsigned rows, unsigned columns) {
    transpose<true>(x, y, rows, columns);
}
