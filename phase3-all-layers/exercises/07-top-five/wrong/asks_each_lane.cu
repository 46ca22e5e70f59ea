// Right columns, but each lane asks the 32 lanes for their largest values one after the other.

extern "C" __global__ void top5(const float *logits, int *best, int rows, int columns) {
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
        float own = most;
        int own_at = at;
        for (int lane = 0; lane < 32; ++lane) {
            float other = __shfl_sync(0xffffffff, own, lane);
            int there = __shfl_sync(0xffffffff, own_at, lane);
            if (other > most) {
                most = other;
                at = there;
            }
        }
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
