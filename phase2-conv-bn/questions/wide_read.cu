// Sixteen bytes per lane from shared memory.

extern "C" __global__ void wide_read(const float4 *x, float4 *y) {
    __shared__ float4 tile[32];
    tile[threadIdx.x ^ 1] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = tile[threadIdx.x];
}
