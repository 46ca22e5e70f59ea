// Right values, but each thread takes a run of neighbouring columns: the lanes of a warp read far apart.

__device__ float across_warp(float sum) {
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    return sum;
}

extern "C" __global__ void row_sum(const float *x, float *y, unsigned columns) {
    __shared__ float of_warps[8];
    unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    float sum = 0.0f;
    unsigned each = (columns + 255) / 256;
    for (unsigned column = thread * each; column < min(thread * each + each, columns); ++column) {
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
