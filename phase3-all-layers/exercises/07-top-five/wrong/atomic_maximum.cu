// Right columns, but the lanes find the winner by an atomic maximum in shared memory.

extern "C" __global__ void top5(const float *logits, int *best, int rows, int columns) {
    __shared__ unsigned long long winners[4];
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    logits += row * columns;
    float values[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[k] = column < columns ? logits[column] : -INFINITY;
    }
    for (int place = 0; place < 5; ++place) {
        float most = -INFINITY;
        int at = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (values[k] > most) {
                most = values[k];
                at = k * 32 + threadIdx.x;
            }
        }
        if (threadIdx.x == 0) {
            winners[threadIdx.y] = 0;
        }
        __syncwarp();
        unsigned bits = __float_as_uint(most), key = bits >> 31 ? ~bits : bits | 0x80000000;
        atomicMax(&winners[threadIdx.y], static_cast<unsigned long long>(key) << 32 | at);
        __syncwarp();
        at = static_cast<int>(winners[threadIdx.y]);
        __syncwarp();
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (k * 32 + threadIdx.x == at) {
                values[k] = -INFINITY;
            }
        }
        if (threadIdx.x == 0) {
            best[row * 5 + place] = at;
        }
    }
}
