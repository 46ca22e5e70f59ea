// Where the blocks that share a tile of the output hand over their parts: the last of them to finish adds all up, in their
// order, so that the result does not depend on who came last. No block waits for another.
// run: conv // trial: conv
#pragma once

// FOURS: how many four sums each of the THREADS has. In the last block of a tile `sums` become the totals, and the result is true;
// the others are done. Blocks that share tile blockIdx.x of the grid differ in blockIdx.y. All threads must call it.
template <int THREADS, int FOURS> __device__ bool add_parts(float *parts, unsigned *arrived, float4 (&sums)[FOURS]) {
    __shared__ bool last;
    auto part = [&](int block, int i) {
        return reinterpret_cast<float4 *>(parts) + (((size_t)block * gridDim.x + blockIdx.x) * FOURS + i) * THREADS + threadIdx.x;
    };
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        *part(blockIdx.y, i) = sums[i];
        sums[i] = float4();
    }
    __threadfence();  // this thread's sums, before the news of them
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&arrived[blockIdx.x], 1u) == gridDim.y - 1;
        if (last) {
            arrived[blockIdx.x] = 0;  // for the next launch
        }
    }
    __syncthreads();
    if (!last) {
        return false;
    }
    __threadfence();  // the news of the others' sums, before the sums
#pragma unroll (FOURS > 8 ? 2 : 4)  // enough loads on their way at a time to hide that each takes long
    for (int block = 0; block < gridDim.y; block++) {
#pragma unroll
        for (int i = 0; i < FOURS; i++) {
            float4 other = __ldcg(part(block, i));
            sums[i] = make_float4(sums[i].x + other.x, sums[i].y + other.y, sums[i].z + other.z, sums[i].w + other.w);
        }
    }
    return true;
}
