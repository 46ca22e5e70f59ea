// Folds the tokens of each sequence into a state, of which one copy stores the last.
// nvrtc: --gpu-architecture=compute_90 // run: published 02
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 128 threads, one sequence per block: its tokens are those from starts[block] to starts[block + 1].
extern "C" __global__ void states(const float *tokens, const unsigned *starts, float *last) {
    __shared__ alignas(128) float state[128];
    unsigned thread = threadIdx.x, sequence = blockIdx.x;
    state[thread] = 0.0f;
    for (unsigned token = starts[sequence]; token < starts[sequence + 1]; ++token) {
        state[thread] = 0.5f * state[thread] + tokens[token * 128 + thread];
        fence_async_proxy();
    }
    __syncthreads();
    if (thread == 0) {
        store_run(last + sequence * 128, state, sizeof state);
        stores_commit();
        stores_done();
    }
}
// ANCHOR_END: kernel
