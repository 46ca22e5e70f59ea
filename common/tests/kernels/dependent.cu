// out[i] = in[n - 1 - i] + 1, by a launch that may begin before the one that wrote `in` has ended: it waits for that itself. The
// first block needs what the last one wrote, so beginning too early would show.
// nvrtc: --gpu-architecture=compute_90
extern "C" __global__ void reverse_add_one(const unsigned *in, unsigned *out, unsigned n) {
    asm volatile("griddepcontrol.launch_dependents;");
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (i < n) {
        out[i] = in[n - 1 - i] + 1;
    }
}
