// The mean of each cell of planes that are divided into out_height × out_width cells, whether or not that divides the plane evenly.
//
// Along a side of `size` pixels, cell i of `out` begins at pixel ⌊i · size / out⌋ and ends before pixel ⌈(i + 1) · size / out⌉:
//
//     size = 7, out = 3:    0 0 0 . . . .        cells overlap by a pixel where they do not fit, and none is empty
//                           . . 1 1 1 . .
//                           . . . . 2 2 2
//
// One warp per cell: blocks of 32 threads, blockIdx.x and blockIdx.y are the cell's column and row, blockIdx.z its plane.

extern "C" __global__ void adaptive_pool(const float *x, float *y, int height, int width, int out_height, int out_width) {
    int column = blockIdx.x, row = blockIdx.y;
    x += blockIdx.z * height * width;
    // Your code: the cell's bounds. ⌈a / b⌉ is (a + b − 1) / b.
    int top = 0, bottom = height, left = 0, right = width;
    int across = right - left, count = (bottom - top) * across;
    float sum = 0.0f;
    // Your code: the cell's `count` pixels, shared among the lanes whatever its shape. Then the sum over the warp.
    if (threadIdx.x == 0) {
        y[(blockIdx.z * out_height + row) * out_width + column] = sum / count;
    }
}
