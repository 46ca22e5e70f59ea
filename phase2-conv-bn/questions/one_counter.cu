// A block counts into one place.

extern "C" __global__ void one_counter(const float *x, unsigned *count) {
    atomicAdd(count, x[threadIdx.x] > 1.0f ? 1u : 2u);
}
