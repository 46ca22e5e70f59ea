// Right values, but the lanes of each warp add atomically to its sum in shared memory, one after another.

extern "C" __global__ void sparse_rows(const int *lengths, const int *columns, const float *values, const float *x, float *y,
                                       unsigned rows, unsigned room) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    __shared__ float of_rows[8];
    unsigned warp = threadIdx.x / 32;
    if (lane == 0) {
        of_rows[warp] = 0.0f;
    }
    __syncwarp();
    unsigned length = lengths[row], at = row * room;
    float sum = 0.0f;
    for (unsigned i = lane; i < length; i += 32) {
        sum += values[at + i] * x[columns[at + i]];
    }
    atomicAdd(&of_rows[warp], sum);
    __syncwarp();
    if (lane == 0) {
        y[row] = of_rows[warp];
    }
}
