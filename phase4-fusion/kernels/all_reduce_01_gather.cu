// One device gathers: it reads the values of all others over the links and adds them up; the others then copy its sums.
//
//     rank 1 ──▶ rank 0 ──▶ rank 1
//     rank 2 ──▶   Σ    ──▶ rank 2
//
// Limit: all bytes go through the links of one device, in and then out, while the others' links rest.
// run: all-reduce
#include "all_reduce.cuh"

// ANCHOR: gather
extern "C" __global__ void gather_sum(const __grid_constant__ Peers<const float> values, float *sums, unsigned long long n,
                                      unsigned ranks) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = 0;
        for (unsigned peer = 0; peer < ranks; ++peer) {
            sum += values.at[peer][i];
        }
        sums[i] = sum;
    }
}
// ANCHOR_END: gather
