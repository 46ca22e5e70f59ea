// The masked gradient of y = relu(x·Wᵀ + bias), written once for both products of the backward pass:
//
//     g = dy where y > 0, else 0     [batch, out]; its columns are summed on the way: dbias
//
// In linear_03_backward.cu the mask is applied on the way to shared memory, so every tile passes through registers, and each column of
// tiles loads y again beside dy. This costs the bytes of g, once written and read by each product, and lets both copy past the registers.
//
// Limited by memory: 8 bytes read and 4 written per value.
// run: test linear // trial: linear_mask

// ANCHOR: mask
constexpr int COLUMNS = 32, LANES_DOWN = 8;  // a block's threads: columns of g, and rows at a time
constexpr int ROWS = 256;                    // rows of g per block
constexpr int TOGETHER = 32 / LANES_DOWN;    // rows whose loads are under way per thread

// g [rows, columns] and, unless it is null, its transpose [columns, rows]; and for each block of ROWS rows the sums of its columns,
// parts [⌈rows / ROWS⌉, columns]. Blocks are numbered along the columns.
extern "C" __global__ void __launch_bounds__(COLUMNS *LANES_DOWN)
    mask_and_sum(const float *__restrict__ dy, const float *__restrict__ y, float *__restrict__ g, float *__restrict__ transposed,
                 float *__restrict__ parts, int rows, int columns) {
    __shared__ float tile[32][COLUMNS + 1];  // one more, so that a column lies in different banks
    int across = (columns + COLUMNS - 1) / COLUMNS;
    int first_column = blockIdx.x % across * COLUMNS, block = blockIdx.x / across;
    int lane = threadIdx.x % COLUMNS, down = threadIdx.x / COLUMNS, column = first_column + lane;
    float sum = 0.0f;
    for (int first = block * ROWS; first < min(rows, (block + 1) * ROWS); first += 32) {
        float of_dy[TOGETHER], of_y[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            int row = first + down + i * LANES_DOWN;
            bool inside = row < rows && column < columns;
            of_dy[i] = inside ? dy[(size_t)row * columns + column] : 0.0f;
            of_y[i] = inside ? y[(size_t)row * columns + column] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            int row = first + down + i * LANES_DOWN;
            float value = of_y[i] > 0.0f ? of_dy[i] : 0.0f;
            sum += value;
            if (row < rows && column < columns) {
                g[(size_t)row * columns + column] = value;
            }
            if (transposed) {
                tile[down + i * LANES_DOWN][lane] = value;
            }
        }
        if (transposed) {
            __syncthreads();  // the tile is complete
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                int row = first + lane, of_tile = down + i * LANES_DOWN;
                if (row < rows && first_column + of_tile < columns) {
                    transposed[(size_t)(first_column + of_tile) * rows + row] = tile[lane][of_tile];
                }
            }
            __syncthreads();  // all have read it
        }
    }
    __syncthreads();
    tile[down][lane] = sum;
    __syncthreads();  // all sums are there
    if (down == 0 && column < columns) {
        for (int i = 1; i < LANES_DOWN; i++) {
            sum += tile[i][lane];
        }
        parts[(size_t)block * columns + column] = sum;
    }
}
// ANCHOR_END: mask

// The transpose [columns, rows] of x [rows, columns]: for products on tensor cores that read along K alone. A block has 32 × 32 values.
extern "C" __global__ void __launch_bounds__(COLUMNS *LANES_DOWN)
    transpose(const float *__restrict__ x, float *__restrict__ y, int rows, int columns) {
    __shared__ float tile[32][COLUMNS + 1];
    int across = (columns + COLUMNS - 1) / COLUMNS;
    int first_column = blockIdx.x % across * COLUMNS, first_row = blockIdx.x / across * 32;
    int lane = threadIdx.x % COLUMNS, down = threadIdx.x / COLUMNS;
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        int row = first_row + down + i * LANES_DOWN, column = first_column + lane;
        if (row < rows && column < columns) {
            tile[down + i * LANES_DOWN][lane] = x[(size_t)row * columns + column];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        int column = first_column + down + i * LANES_DOWN, row = first_row + lane;
        if (row < rows && column < columns) {
            y[(size_t)column * rows + row] = tile[lane][down + i * LANES_DOWN];
        }
    }
}

// dbias [columns], the sums of the parts' columns. One thread per column.
extern "C" __global__ void __launch_bounds__(256) add_parts(const float *__restrict__ parts, float *__restrict__ dbias, int count, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < columns) {
        float sum = 0.0f;
#pragma unroll 8
        for (int i = 0; i < count; i++) {
            sum += parts[(size_t)i * columns + column];
        }
        dbias[column] = sum;
    }
}
