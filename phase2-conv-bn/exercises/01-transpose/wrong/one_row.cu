// Each thread moves one element, but a tile has four times as many elements as the block has threads.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ float tile[32][33];
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    unsigned row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && column < columns) {
        tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
    }
    __syncthreads();
    row = blockIdx.y * 32 + threadIdx.x;
    column = blockIdx.x * 32 + threadIdx.y;
    if (row < rows && column < columns) {
        y[column * rows + row] = tile[threadIdx.x][threadIdx.y];
    }
}
