// The sum of a list: each thread adds its value to the one result in memory.
//
//     x   x   x   x   x   x   x   x  …
//      \   \   \   \  |  /   /   /
//       '---'---'--- sum ---'---'        one address, which takes one addition after another
//
// Limited by that address: however many threads add, its additions are made one at a time.
// run: reduction // trial: reduction

constexpr unsigned THREADS = 256;

// x: [n]; sum: one value, 0 before the launch. A thread per value.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) reduce(const unsigned *x, unsigned *sum, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) {
        atomicAdd(sum, x[i]);
    }
}
// ANCHOR_END: kernel
