// Each thread adds the sum of its own warp to those of the warps before it.

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
    for (unsigned w = 0; w <= warp; ++w) {
        sum += of_warps[w];
    }
    if (inside) {
        y[blockIdx.x * columns + column] = sum;
    }
}
