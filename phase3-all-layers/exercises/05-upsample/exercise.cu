// Each pixel of planes of height × width becomes a square of 2 × 2 pixels in planes of 2·height × 2·width.
//
// One thread per pixel of x. Blocks have 32 × 8 threads (x along a row), and the grid has a layer of blocks for each plane.

extern "C" __global__ void upsample(const float *x, float *y, int height, int width) {
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= height || column >= width) {
        return;
    }
    float value = x[(blockIdx.z * height + row) * width + column];
    // Your code: four pixels of y in two stores. A float2 is two neighbours.
    y[0] = value;
}
