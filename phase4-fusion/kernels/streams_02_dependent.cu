// nvrtc: --gpu-architecture=compute_90 // run: streams
// The chain's step for launches that may begin before the one before has ended: the block is there, its index computed, when the
// last value arrives.

// ANCHOR: dependent
extern "C" __global__ void reverse_add_one(const unsigned *in, unsigned *out, unsigned n) {
    asm volatile("griddepcontrol.launch_dependents;"); // the next launch may begin
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory"); // until the launch before has ended
    if (i < n) {
        out[i] = in[n - 1 - i] + 1;
    }
}
// ANCHOR_END: dependent
