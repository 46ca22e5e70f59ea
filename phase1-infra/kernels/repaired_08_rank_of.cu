// For each value, the number of smaller ones: compares all with all in tiles of 128, with a second buffer for the next.
// run: broken 08 --repaired

// ANCHOR: kernel
// Blocks of 128 threads.
extern "C" __global__ void rank_of(const float *x, unsigned *ranks, unsigned n) {
    __shared__ float tile[2][128];
    unsigned thread = threadIdx.x;
    unsigned i = blockIdx.x * 128 + thread;
    float mine = i < n ? x[i] : 0.0f;
    unsigned smaller = 0;
    tile[0][thread] = thread < n ? x[thread] : 0.0f;
    __syncthreads();
    for (unsigned first = 0, now = 0; first < n; first += 128, now = 1 - now) {
        unsigned next = first + 128 + thread;
        tile[1 - now][thread] = next < n ? x[next] : 0.0f; // filled while the other is read
        for (unsigned k = 0; k < 128 && first + k < n; ++k) {
            smaller += tile[now][k] < mine;
        }
        // ANCHOR: repair
        __syncthreads(); // the next tile is complete, and this one is no longer read
        // ANCHOR_END: repair
    }
    if (i < n) {
        ranks[i] = smaller;
    }
}
// ANCHOR_END: kernel
