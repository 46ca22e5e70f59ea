// Adds to counts[b] how often b occurs among n bins of 0 to 63. The counts are 0 before the launch.
//
// Blocks have 256 threads, and the grid is four blocks, whatever n is.

extern "C" __global__ void histogram(const int *bins, int *counts, unsigned n) {
    __shared__ int own[64];
    // Your code: count into `own`, which belongs to the block, and add it to `counts` when all values are counted. What does `own`
    // contain at first, and who else writes to it?
}
