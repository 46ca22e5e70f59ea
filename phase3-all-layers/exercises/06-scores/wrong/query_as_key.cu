// The key tile holds the keys of the block's rows, not of its columns.

extern "C" __global__ void scores(const float *qkv, float *s, int tokens, int heads, float scale) {
    __shared__ float q[16][17], k[16][17];
    int head = blockIdx.z, channels = heads * 32;
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    int key = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int first = 0; first < 32; first += 16) {
        int channel = head * 32 + first + threadIdx.x;
        q[threadIdx.y][threadIdx.x] = row < tokens ? qkv[row * 3 * channels + channel] : 0.0f;
        k[threadIdx.y][threadIdx.x] = key < tokens ? qkv[key * 3 * channels + channels + channel] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) {
            sum += q[threadIdx.y][i] * k[threadIdx.x][i];
        }
        __syncthreads();
    }
    if (row < tokens && column < tokens) {
        s[(head * tokens + row) * tokens + column] = sum * scale;
    }
}
