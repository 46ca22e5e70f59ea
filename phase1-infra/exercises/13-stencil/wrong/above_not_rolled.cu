// The cell moves on, and the one above stays that of the first row.

extern "C" __global__ void heat(const float *now, float *next, unsigned rows, unsigned columns) {
    unsigned x = blockIdx.x * 64 + threadIdx.x, first = blockIdx.y * 16;
    if (x >= columns) {
        return;
    }
    unsigned end = min(first + 16, rows);
    unsigned left = x > 0 ? x - 1 : x, right = x + 1 < columns ? x + 1 : x;  // at a wall, the cell itself
    float c = now[first * columns + x];
    float above = first > 0 ? now[(first - 1) * columns + x] : c;
    for (unsigned y = first; y < end; ++y) {
        const float *row = now + y * columns;
        float below = y + 1 < rows ? row[columns + x] : c;
        float sum = above + below + row[left] + row[right];
        next[y * columns + x] = c + 0.1f * (sum - 4.0f * c);
        c = below;
    }
}
