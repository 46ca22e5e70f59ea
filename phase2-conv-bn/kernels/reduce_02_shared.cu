// The sum of a list: each block adds its values in shared memory, and only its sum goes to memory's one address.
//
//     stride 128    x₀ += x₁₂₈   x₁ += x₁₂₉   …   x₁₂₇ += x₂₅₅
//     stride  64    x₀ += x₆₄    x₁ += x₆₅    …
//        …
//     stride   1    x₀ += x₁                        a barrier after each line
//
// Neighbouring threads work on neighbouring words at every stride, so no bank is asked twice.
//
// Limited by waiting: a block loads 1024 bytes once, then needs eight barriers, for ever fewer lanes at work.
// run: reduction // trial: reduction

constexpr unsigned THREADS = 256;

// x: [n]; sum: one value, 0 before the launch. A thread per value.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) reduce(const unsigned *x, unsigned *sum, unsigned n) {
    __shared__ unsigned sums[THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    sums[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (unsigned stride = THREADS / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) {
            sums[threadIdx.x] += sums[threadIdx.x + stride];
        }
        __syncthreads();  // for every thread: outside the condition
    }
    if (threadIdx.x == 0) {
        atomicAdd(sum, sums[0]);
    }
}
// ANCHOR_END: kernel
