// Nothing at all: what is left of its time is what a launch costs.

// ANCHOR: kernel
extern "C" __global__ void empty() {}
// ANCHOR_END: kernel
