// The warps beyond the last row read and write, too.

extern "C" __global__ void top5(const float *logits, int *best, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.y;
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
        for (int distance = 16; distance > 0; distance /= 2) {
            float other = __shfl_xor_sync(0xffffffff, most, distance);
            int there = __shfl_xor_sync(0xffffffff, at, distance);
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
