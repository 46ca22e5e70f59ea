// A chain of tiny kernels, each of which needs what all blocks of the one before wrote: out[i] = in[n - 1 - i] + 1. There is
// nothing to compute, so the time is that of getting from one kernel to the next.
// run: streams

// ANCHOR: step
extern "C" __global__ void reverse_add_one(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = in[n - 1 - i] + 1;
    }
}
// ANCHOR_END: step

// ANCHOR: persistent
// All blocks wait for each other: the first thread of each counts it in and looks until all have come. `arrived` grows by
// gridDim.x with each meeting; `meeting` counts from 1. All blocks must be on the GPU at once, or the first ones wait forever.
__device__ void meet(unsigned *arrived, unsigned meeting) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence(); // what the block wrote comes before its arrival
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < meeting * gridDim.x) {
            __nanosleep(20);
        }
        __threadfence(); // and what the others wrote before what it reads next
    }
    __syncthreads();
}

// The whole chain in one launch: `steps` of them, from `even` to `odd` and back. `arrived` is 0 at the start, and again at the end.
extern "C" __global__ void reverse_steps(unsigned *even, unsigned *odd, unsigned n, unsigned steps, unsigned *arrived) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned step = 0; step < steps; ++step) {
        volatile unsigned *in = step % 2 == 0 ? even : odd;
        unsigned *out = step % 2 == 0 ? odd : even;
        if (i < n) {
            out[i] = in[n - 1 - i] + 1;
        }
        meet(arrived, step + 1);
    }
    // Once all blocks have arrived here, none reads the count again: the last one resets it.
    if (threadIdx.x == 0 && atomicAdd(arrived, 1) == steps * gridDim.x + gridDim.x - 1) {
        *arrived = 0;
    }
}
// ANCHOR_END: persistent
