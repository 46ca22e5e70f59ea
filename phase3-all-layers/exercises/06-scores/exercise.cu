// s[h][i][j] = scale · (query i · key j) for every head, of 32 channels each.
//
// qkv is [tokens][3][heads][32]: queries, keys and values of a token lie side by side. One thread per score: blocks have 16 × 16
// threads (x along j), and the grid has a layer of blocks for each head.

extern "C" __global__ void scores(const float *qkv, float *s, int tokens, int heads, float scale) {
    __shared__ float q[16][17], k[16][17];
    int head = blockIdx.z, channels = heads * 32;
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    int key = blockIdx.x * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int first = 0; first < 32; first += 16) {
        int channel = head * 32 + first + threadIdx.x;
        // Your code: fill both tiles, 16 tokens × 16 channels each, then add 16 products to `sum`.
        q[threadIdx.y][threadIdx.x] = row < tokens ? qkv[row * 3 * channels + channel] : 0.0f;
    }
    if (row < tokens && column < tokens) {
        s[(head * tokens + row) * tokens + column] = sum * scale;
    }
}
