// The first warp scans the sums of the warps, and nothing waits for it before they are added.

extern "C" __global__ void row_scan(const float *x, float *y, unsigned columns) {
    __shared__ float of_warps[8];
    unsigned column = threadIdx.x, lane = column % 32, warp = column / 32;
    bool inside = column < columns;
    float sum = inside ? x[blockIdx.x * columns + column] : 0.0f;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        float before = __shfl_up_sync(0xffffffff, sum, distance);
        if (lane >= distance) {
            sum += before;
        }
    }
    if (lane == 31) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    if (warp == 0) {
        float total = lane < 8 ? of_warps[lane] : 0.0f;
        for (unsigned distance = 1; distance < 8; distance *= 2) {
            float before = __shfl_up_sync(0xffffffff, total, distance);
            if (lane >= distance) {
                total += before;
            }
        }
        if (lane < 8) {
            of_warps[lane] = total;
        }
    }
    if (warp > 0) {
        sum += of_warps[warp - 1];
    }
    if (inside) {
        y[blockIdx.x * columns + column] = sum;
    }
}
