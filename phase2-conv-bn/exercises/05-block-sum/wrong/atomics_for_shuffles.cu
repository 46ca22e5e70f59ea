// Right values, but the lanes of each warp add atomically to its sum in shared memory, one after another.

extern "C" __global__ void row_sum(const float *x, float *y, unsigned columns) {
    __shared__ float of_warps[8];
    unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    float sum = 0.0f;
    for (unsigned column = thread; column < columns; column += 256) {
        sum += x[blockIdx.x * columns + column];
    }
    if (lane == 0) {
        of_warps[warp] = 0.0f;
    }
    __syncwarp();
    atomicAdd(&of_warps[warp], sum);
    __syncthreads();
    if (thread == 0) {
        sum = 0.0f;
        for (unsigned w = 0; w < 8; ++w) {
            sum += of_warps[w];
        }
        y[blockIdx.x] = sum;
    }
}
