// What the steps with many blocks per channel have in common: 16-byte loads of planes that begin anywhere, and one result per block.
//
//     a plane of 7 values that begins at an address 4·(4k + 1), cut where addresses are multiples of 16:
//
//         · v v v|v v v v          slots 0 and 1: slot 0 is ragged, slot 1 is a vector
//
//     channel c = `images` planes of `slots` slots each; block (c, s) → the slots [s·share, (s + 1)·share) of those
// run: norm // trial: norm
#pragma once

constexpr unsigned THREADS = 256;
constexpr unsigned WARPS = THREADS / 32;
// Loads of a thread in flight.
constexpr unsigned IN_FLIGHT = 4;

// The values of one slot; those outside the plane are 0.
struct Slot {
    float v[4];
    unsigned first, end;  // [first, end) are inside

    __device__ bool whole() const { return first == 0 && end == 4; }
};

// ANCHOR: take
// Slot `slot` of the plane that begins at x[begin].
__device__ inline Slot take(const float *x, unsigned begin, unsigned plane, unsigned slot) {
    unsigned before = begin % 4;  // values between the boundary and the plane
    unsigned at = 4 * slot;       // both from the boundary
    unsigned end = before + plane;
    Slot s = {{0.0f, 0.0f, 0.0f, 0.0f}, at < before ? before : 0, end < at ? 0 : min(end - at, 4)};
    const float *values = x + (begin - before + at);
    if (s.whole()) {
        float4 v = *reinterpret_cast<const float4 *>(values);
        s.v[0] = v.x;
        s.v[1] = v.y;
        s.v[2] = v.z;
        s.v[3] = v.w;
    } else {
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            if (j >= s.first && j < s.end) {
                s.v[j] = values[j];
            }
        }
    }
    return s;
}
// ANCHOR_END: take

// ANCHOR: slots
// add(slot) for each of this thread's slots. x has less than 2³¹ values.
template <typename Add>
__device__ void each_slot(const float *x, unsigned images, unsigned channels,
                          unsigned plane,  // H·W
                          unsigned slots,  // of a plane: plane / 4, or enough for any alignment where 4 does not divide it
                          unsigned share,  // slots per block
                          Add add) {
    unsigned splits = gridDim.x / channels;
    unsigned c = blockIdx.x / splits;
    unsigned first = blockIdx.x % splits * share;
    unsigned end = min(first + share, images * slots);
    for (unsigned e = first + threadIdx.x; e < end; e += IN_FLIGHT * THREADS) {
        // All loads before the first use: four misses wait together.
        Slot s[IN_FLIGHT];
#pragma unroll
        for (unsigned j = 0; j < IN_FLIGHT; j++) {
            unsigned of = e + j * THREADS;
            unsigned image = of / slots;
            // Past the end: a slot after its plane, which is empty.
            unsigned slot = of < end ? of - image * slots : slots;
            s[j] = take(x, (image * channels + c) * plane, plane, slot);
        }
#pragma unroll
        for (unsigned j = 0; j < IN_FLIGHT; j++) {
            add(s[j]);
        }
    }
}
// ANCHOR_END: slots

// ANCHOR: block
// In thread 0: the block's results in one. Each warp joins its own by `across_warp`, then the first joins theirs: one barrier.
// A result of zeros is that of no values.
template <typename Result> __device__ Result across_block(Result result) {
    __shared__ Result of_warps[WARPS];
    result = across_warp(result);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = result;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        result = across_warp(threadIdx.x < WARPS ? of_warps[threadIdx.x] : Result{});
    }
    return result;
}
// ANCHOR_END: block
