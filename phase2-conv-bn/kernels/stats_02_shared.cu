// Mean and variance of each channel: one block per channel, whose threads' sums meet in a tree in shared memory.
//
//     256 threads stride through the channel's M = N·H·W values          neighbours read neighbours
//     128 add the sums of the upper half to theirs, then 64, 32 … 1      a barrier between
//
// Limited by parallelism: as many blocks as channels, 64 for 132 SMs, and 256 loads of 4 bytes in flight in each. The tree is
// eight barriers at the end, with ever fewer threads awake.
// run: norm // trial: norm
constexpr unsigned THREADS = 256;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_shared(const float *x, float *mean, float *variance, unsigned images, unsigned channels,
                 unsigned plane  // H·W
    ) {
    __shared__ float sums[THREADS];
    __shared__ float squares[THREADS];
    unsigned c = blockIdx.x;
    unsigned t = threadIdx.x;
    float sum = 0.0f;
    float square = 0.0f;
    // The channel's planes as one run of values: e is in image e / plane.
    for (unsigned e = t; e < images * plane; e += THREADS) {
        unsigned image = e / plane;
        float value = x[((size_t)image * channels + c) * plane + (e - image * plane)];
        sum += value;
        square += value * value;
    }
    sums[t] = sum;
    squares[t] = square;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            sums[t] += sums[t + half];
            squares[t] += squares[t + half];
        }
        __syncthreads();
    }
    if (t == 0) {
        float count = (float)images * plane;
        mean[c] = sums[0] / count;
        variance[c] = squares[0] / count - mean[c] * mean[c];
    }
}
// ANCHOR_END: kernel
