// Does nothing, so all of its time is the cost of the launch.
// run: launch-overhead

// ANCHOR: kernel
extern "C" __global__ void empty() {}
// ANCHOR_END: kernel
