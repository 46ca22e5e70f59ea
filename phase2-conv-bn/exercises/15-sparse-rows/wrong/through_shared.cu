// Right values, but lane 0 adds up the lanes' sums from shared memory.

extern "C" __global__ void sparse_rows(const int *lengths, const int *columns, const float *values, const float *x, float *y,
                                       unsigned rows, unsigned room) {
    __shared__ float sums[256];
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    unsigned length = lengths[row], at = row * room;
    float sum = 0.0f;
    for (unsigned i = lane; i < length; i += 32) {
        sum += values[at + i] * x[columns[at + i]];
    }
    sums[threadIdx.x] = sum;
    __syncwarp();
    if (lane == 0) {
        sum = 0.0f;
        for (unsigned other = 0; other < 32; ++other) {
            sum += sums[threadIdx.x + other];
        }
        y[row] = sum;
    }
}
