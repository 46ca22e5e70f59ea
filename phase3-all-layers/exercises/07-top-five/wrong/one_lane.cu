// Right columns, but lane 0 of each warp reads the row alone and inserts each value into a list of five.

extern "C" __global__ void top5(const float *logits, int *best, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    logits += row * columns;
    if (threadIdx.x > 0) {
        return;
    }
    float values[5];
    int at[5];
#pragma unroll
    for (int place = 0; place < 5; ++place) {
        values[place] = -INFINITY;
    }
    for (int column = 0; column < columns; ++column) {
        float value = logits[column];
        int here = column;
#pragma unroll
        for (int place = 0; place < 5; ++place) {
            if (value > values[place]) {
                float smaller = values[place];
                int there = at[place];
                values[place] = value;
                at[place] = here;
                value = smaller;
                here = there;
            }
        }
    }
#pragma unroll
    for (int place = 0; place < 5; ++place) {
        best[row * 5 + place] = at[place];
    }
}
