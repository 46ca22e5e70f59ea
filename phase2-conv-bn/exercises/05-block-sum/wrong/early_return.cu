// Threads without a column return at once, but the shuffles name all 32 lanes and the last step all eight warps.

__device__ float across_warp(float sum) {
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    return sum;
}

extern "C" __global__ void row_sum(const float *x, float *y, unsigned columns) {
    __shared__ float of_warps[8];
    unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    if (thread >= columns) {
        return;
    }
    float sum = 0.0f;
    for (unsigned column = thread; column < columns; column += 256) {
        sum += x[blockIdx.x * columns + column];
    }
    sum = across_warp(sum);
    if (lane == 0) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    if (warp == 0) {
        sum = across_warp(lane < 8 ? of_warps[lane] : 0.0f);
        if (lane == 0) {
            y[blockIdx.x] = sum;
        }
    }
}
