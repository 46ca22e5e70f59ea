// The sum of each row of a row-major matrix: y[row].
//
// A block of 256 threads per row; there are as many blocks as rows. The number of columns is arbitrary.

// In every lane: the sum over all 32.
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
    for (unsigned column = thread; column < columns; column += 256) {
        sum += x[blockIdx.x * columns + column];
    }
    // Your code: each of the 256 threads has a partial sum. Add them up: first within each warp (across_warp does that), then the
    // eight sums of the warps through of_warps. One barrier is enough.
}
