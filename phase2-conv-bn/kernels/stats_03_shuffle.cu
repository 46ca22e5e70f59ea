// Mean and variance of each channel: 16-byte loads, sums that meet by warp shuffles, and many blocks a channel, whose results
// a second kernel adds in a fixed order.
//
//     a plane of 7 values that begins at an address 4·(4k + 1), cut where addresses are multiples of 16:
//
//         · v v v|v v v v          slots 0 and 1: slot 0 is ragged, slot 1 is a vector
//
//     channel c = `images` planes of `slots` slots each; block (c, s) → the slots [s·share, (s + 1)·share) of those
//
// The second stage gives the same bits every time; an atomic addition would not, since it adds in the order of arrival.
//
// Limited by memory. What is left to do is not speed: Σx² / M − mean² subtracts two large numbers where the mean is large
// (stats_04_welford.cu).

constexpr unsigned THREADS = 256;
constexpr unsigned WARPS = THREADS / 32;
// Loads of a thread in flight.
constexpr unsigned IN_FLIGHT = 4;

struct Sums {
    float sum;
    float squares;
};

// The values of one slot; those outside the plane are 0.
struct Slot {
    float v[4];
    unsigned first, end;  // [first, end) are inside
};

// ANCHOR: take
// Slot `slot` of the plane that begins at x[begin].
__device__ Slot take(const float *x, size_t begin, unsigned plane, unsigned slot) {
    unsigned before = begin % 4;  // values between the boundary and the plane
    unsigned at = 4 * slot;       // both from the boundary
    unsigned end = before + plane;
    Slot s = {{0.0f, 0.0f, 0.0f, 0.0f}, at < before ? before : 0, end < at ? 0 : min(end - at, 4)};
    const float *values = x + (begin - before) + at;
    if (s.first == 0 && s.end == 4) {
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

// ANCHOR: warp
// In lane 0: the sum over all lanes. All 32 take part.
__device__ Sums across_warp(Sums sums) {
    for (int offset = 16; offset > 0; offset /= 2) {
        sums.sum += __shfl_down_sync(0xffffffff, sums.sum, offset);
        sums.squares += __shfl_down_sync(0xffffffff, sums.squares, offset);
    }
    return sums;
}

// In thread 0: the sum over the block. Each warp adds by itself, then the first adds theirs: one barrier.
__device__ Sums across_block(Sums sums) {
    __shared__ Sums of_warps[WARPS];
    sums = across_warp(sums);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = sums;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sums = across_warp(threadIdx.x < WARPS ? of_warps[threadIdx.x] : Sums{0.0f, 0.0f});
    }
    return sums;
}
// ANCHOR_END: warp

// partial: [channels, gridDim.x / channels], written once each.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_partial(const float *x, Sums *partial, unsigned images, unsigned channels,
                  unsigned plane,  // H·W
                  unsigned slots,  // of a plane: plane / 4, or enough for any alignment where 4 does not divide it
                  unsigned share   // slots a block
    ) {
    unsigned splits = gridDim.x / channels;
    unsigned c = blockIdx.x / splits;
    unsigned first = blockIdx.x % splits * share;
    unsigned end = min(first + share, images * slots);
    Sums sums = {0.0f, 0.0f};
    for (unsigned e = first + threadIdx.x; e < end; e += IN_FLIGHT * THREADS) {
        // All loads before the first use: four misses wait together.
        Slot s[IN_FLIGHT];
#pragma unroll
        for (unsigned j = 0; j < IN_FLIGHT; j++) {
            unsigned of = e + j * THREADS;
            unsigned image = of / slots;
            // Behind the end: a slot behind its plane, which is empty.
            unsigned slot = of < end ? of - image * slots : slots;
            s[j] = take(x, ((size_t)image * channels + c) * plane, plane, slot);
        }
#pragma unroll
        for (unsigned j = 0; j < IN_FLIGHT; j++) {
            for (unsigned i = 0; i < 4; i++) {
                sums.sum += s[j].v[i];
                sums.squares += s[j].v[i] * s[j].v[i];
            }
        }
    }
    sums = across_block(sums);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sums;
    }
}
// ANCHOR_END: kernel

// A block a channel, whose threads stride through the channel's `splits` partial sums.
// ANCHOR: finish
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_finish(const Sums *partial, float *mean, float *variance, unsigned splits, float count  // M
    ) {
    unsigned c = blockIdx.x;
    Sums sums = {0.0f, 0.0f};
    for (unsigned s = threadIdx.x; s < splits; s += THREADS) {
        Sums more = partial[(size_t)c * splits + s];
        sums.sum += more.sum;
        sums.squares += more.squares;
    }
    sums = across_block(sums);
    if (threadIdx.x == 0) {
        float m = sums.sum / count;
        mean[c] = m;
        variance[c] = sums.squares / count - m * m;
    }
}
// ANCHOR_END: finish
