// Right columns, but the lanes exchange values and columns through shared memory.

extern "C" __global__ void top5(const float *logits, int *best, int rows, int columns) {
    __shared__ float lane_most[4][32];
    __shared__ int lane_at[4][32];
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
        lane_most[threadIdx.y][threadIdx.x] = most;
        lane_at[threadIdx.y][threadIdx.x] = at;
        __syncwarp();
        for (int lane = 0; lane < 32; ++lane) {
            if (lane_most[threadIdx.y][lane] > most) {
                most = lane_most[threadIdx.y][lane];
                at = lane_at[threadIdx.y][lane];
            }
        }
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
