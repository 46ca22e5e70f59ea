// Shared by kernels that assign each row of a matrix to a group of threads: a warp (GROUP = 32) or a block (GROUP =
// THREADS).
//
//     GROUP = 32     block b, warp w → row 8·b + w         GROUP = 256     block b → row b
//
// A thread takes WIDTH neighbouring values of a row at a time, with a stride of GROUP·WIDTH. WIDTH is 4 if rows begin
// at multiples of 16 bytes (their length is a multiple of 4), otherwise 1.
// run: test sequence // trial: sequence
#pragma once

constexpr unsigned THREADS = 256;

// The row that this thread works on, which may be past the last, and the thread's rank in its group.
template <unsigned GROUP> __device__ unsigned row_of_group() {
    return blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP;
}
template <unsigned GROUP> __device__ unsigned place_in_group() {
    return threadIdx.x % GROUP;
}

// WIDTH neighbours, from a multiple of WIDTH floats.
template <unsigned WIDTH> __device__ void load(float *to, const float *from) {
    if (WIDTH == 4) {
        float4 four = *reinterpret_cast<const float4 *>(from);
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
    } else {
        to[0] = from[0];
    }
}
template <unsigned WIDTH> __device__ void store(float *to, const float *from) {
    if (WIDTH == 4) {
        *reinterpret_cast<float4 *>(to) = make_float4(from[0], from[1], from[2], from[3]);
    } else {
        to[0] = from[0];
    }
}

// Combines the values of all threads of a group, in an order that does not depend on timing; every thread gets the
// result. All threads of the group must call it.
// ANCHOR: across
template <unsigned GROUP, typename Join> __device__ float across(float value, Join join) {
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
        value = join(value, __shfl_xor_sync(0xffffffff, value, other));
    }
    if (GROUP > 32) {
        __shared__ float of_warps[GROUP / 32];
        __syncthreads();  // the previous results are no longer needed
        if (threadIdx.x % 32 == 0) {
            of_warps[threadIdx.x / 32] = value;
        }
        __syncthreads();  // every warp's result is stored
        value = of_warps[0];
#pragma unroll
        for (unsigned warp = 1; warp < GROUP / 32; warp++) {
            value = join(value, of_warps[warp]);
        }
    }
    return value;
}
// ANCHOR_END: across

template <unsigned GROUP> __device__ float sum_across(float value) {
    return across<GROUP>(value, [](float a, float b) { return a + b; });
}
