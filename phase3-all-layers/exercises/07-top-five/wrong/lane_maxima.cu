// Each lane offers its largest value only: a second winner of the same lane is not found.

extern "C" __global__ void top5(const float *logits, int *best, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    logits += row * columns;
    float values[8];
    bool taken = false;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[k] = column < columns ? logits[column] : -INFINITY;
    }
    for (int place = 0; place < 5; ++place) {
        float most = -INFINITY;
        int at = 0;
        if (!taken) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                if (values[k] > most) {
                    most = values[k];
                    at = k * 32 + threadIdx.x;
                }
            }
        }
        for (int distance = 16; distance > 0; distance /= 2) {
            float other = __shfl_xor_sync(0xffffffff, most, distance);
            int there = __shfl_xor_sync(0xffffffff, at, distance);
            if (other > most) {
                most = other;
                at = there;
            }
        }
        taken = taken || at % 32 == threadIdx.x;
        if (threadIdx.x == 0) {
            best[row * 5 + place] = at;
        }
    }
}
