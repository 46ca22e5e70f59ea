// Softmax of each row of scores, in which a query sees no later token: of row i it counts only columns 0 to i. The others become 0.
//
// s, p: [heads][tokens][tokens], tokens ≤ 256, rows = heads · tokens. One warp per row: blocks have 32 × 4 threads, and threadIdx.y
// says which of the block's four rows.

extern "C" __global__ void causal_softmax(const float *s, float *p, int rows, int tokens) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    int query = row % tokens;
    s += row * tokens;
    p += row * tokens;
    float values[8] = {}, sum = 1.0f;  // lane l has keys l, l + 32, …, l + 224
    // Your code: the exponentials and their sum, as in `softmax`. Scores of keys that come after the query need not be read.
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int key = k * 32 + threadIdx.x;
        if (key < tokens) {
            p[key] = values[k] / sum;
        }
    }
}
