// A sum with 1, 2, 4 or 8 loads in flight per thread: all loads of an iteration are started before the first is used.
//
//     1 load        load ········ add, load ········ add, …          (· is waiting)
//     4 loads       load load load load ········ add add add add, load load load load ········ …
//
// Neighbouring threads read neighbouring elements, as in 02_grid_stride.cu. Limited by the latency of memory while
// warps × loads are few, then by its bandwidth.
// run: latency-hiding

// ANCHOR: kernel
// Sums the elements t, t + stride, t + 2 · stride, … of x, where t is the thread and `stride` the threads of the grid.
// n + LOADS · stride must fit in 32 bits.
template <int LOADS>
__device__ void add_up(const float *x, float *out, unsigned n) {
    unsigned stride = gridDim.x * blockDim.x;
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned i = thread;
    float sum = 0.0f;
#pragma unroll 1
    for (; i + (LOADS - 1) * stride < n; i += LOADS * stride) {
        float value[LOADS];
#pragma unroll
        for (int load = 0; load < LOADS; load++) {
            value[load] = x[i + load * stride];
        }
#pragma unroll
        for (int load = 0; load < LOADS; load++) {
            sum += value[load];
        }
    }
    // What is left at the end: fewer than LOADS elements.
#pragma unroll 1
    for (; i < n; i += stride) {
        sum += x[i];
    }
    out[thread] = sum;
}
// ANCHOR_END: kernel

// One result per thread of the launch.
#define KERNEL(LOADS)                                                                                       \
    extern "C" __global__ void __launch_bounds__(128) loads_##LOADS(const float *x, float *out, unsigned n) { \
        add_up<LOADS>(x, out, n);                                                                           \
    }
KERNEL(1)
KERNEL(2)
KERNEL(4)
KERNEL(8)
