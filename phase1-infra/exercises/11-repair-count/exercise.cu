// Adds the number of values above a threshold to *count: each block counts its own values, and adds that count.
//
// One thread per value, in blocks of 256.
//
// Something is wrong. `check` says what it sees; put it right.

extern "C" __global__ void count_above(const float *x, float threshold, unsigned *count, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    unsigned above = __syncthreads_count(i < n && x[i] > threshold); // of the block
    if (threadIdx.x == 0) {
        *count += above;
    }
}
