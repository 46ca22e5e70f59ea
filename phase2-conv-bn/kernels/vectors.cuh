// Four floats at once: 16 bytes, the most that one load or store of a thread moves. ALIGNED says that rows begin at
// multiples of 16 bytes (their length is a multiple of 4); otherwise the four are moved one by one.
// run: gemm // trial: gemm
#pragma once

#include "epilogue.cuh"

// Four neighbours, at a multiple of 16 bytes.
__device__ inline float4 load4(const float *from) {
    return *reinterpret_cast<const float4 *>(from);
}
__device__ inline void store4(float *to, float4 four) {
    *reinterpret_cast<float4 *>(to) = four;
}

// Stores four sums at a multiple of 16 bytes. A store takes neighbouring registers, and sums that had to be neighbours all along would
// put the three operands of many a multiply-add into one bank. `+ 0.0f` moves them only here.
__device__ inline void store_sums(float *to, const float *sums) {
    store4(to, make_float4(sums[0] + 0.0f, sums[1] + 0.0f, sums[2] + 0.0f, sums[3] + 0.0f));
}

// Four values of a row from `at`, a multiple of 4; zeros from `length` on.
template <bool ALIGNED> __device__ float4 load4(const float *row, int at, int length) {
    if (ALIGNED) {
        return at < length ? load4(row + at) : float4();
    }
    return make_float4(at < length ? row[at] : 0.0f, at + 1 < length ? row[at + 1] : 0.0f,
                       at + 2 < length ? row[at + 2] : 0.0f, at + 3 < length ? row[at + 3] : 0.0f);
}

// Finishes four sums that are neighbours in a row of C, which has `length` elements, and writes those that lie inside.
template <bool ALIGNED>
__device__ void finish4(const Epilogue &epilogue, float4 sums, const float *bias, float *row, int at, int length) {
    if (ALIGNED) {
        if (at < length) {
            epilogue.finish(reinterpret_cast<float4 *>(row + at), sums, bias4_at(bias, at));
        }
        return;
    }
    const float each[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (at + i < length) {
            epilogue.finish(row + at + i, each[i], bias_at(bias, at + i));
        }
    }
}

// Four neighbours, at a multiple of 16 bytes, into an array of registers.
__device__ inline void read4(float *to, const float *from) {
    float4 four = load4(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
}
