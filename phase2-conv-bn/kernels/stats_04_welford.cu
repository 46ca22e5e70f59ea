// Mean and variance of each channel, with the structure of stats_03_shuffle.cu, and (count, mean, m2) merged where that adds
// (sum, squares): a variance that survives a large mean.
//
//     m2 = Σ (x − mean)²       merging a and b, δ = mean_b − mean_a (Chan, Golub and LeVeque, 1979):
//
//         count = count_a + count_b
//         mean  = mean_a + δ · count_b / count
//         m2    = m2_a + m2_b + δ² · count_a · count_b / count
//
// With count_b = 1 these are Welford's formulas (1962). Each value is compared with a mean near it before it is squared, so
// nothing large is subtracted from something large. A vector of four is reduced by itself first and merged as one: a division
// for four values.
//
// Limited by memory still: some 12 instructions a value where adding takes 2, in the shadow of the loads.

constexpr unsigned THREADS = 256;
constexpr unsigned WARPS = THREADS / 32;
// Loads of a thread in flight.
constexpr unsigned IN_FLIGHT = 4;

struct Moments {
    float count;
    float mean;
    float m2;
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

// ANCHOR: merge
__device__ void merge(Moments &a, Moments b) {
    float count = a.count + b.count;
    if (b.count == 0.0f) {
        return;  // 0 / 0 where a is empty too
    }
    float delta = b.mean - a.mean;
    float part = b.count / count;
    a.mean += delta * part;
    a.m2 += b.m2 + delta * delta * a.count * part;
    a.count = count;
}
// ANCHOR_END: merge

// In lane 0: all lanes merged. All 32 take part.
__device__ Moments across_warp(Moments moments) {
    for (int offset = 16; offset > 0; offset /= 2) {
        Moments more;
        more.count = __shfl_down_sync(0xffffffff, moments.count, offset);
        more.mean = __shfl_down_sync(0xffffffff, moments.mean, offset);
        more.m2 = __shfl_down_sync(0xffffffff, moments.m2, offset);
        merge(moments, more);
    }
    return moments;
}

// In thread 0: the block merged.
__device__ Moments across_block(Moments moments) {
    __shared__ Moments of_warps[WARPS];
    moments = across_warp(moments);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = moments;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        moments = across_warp(threadIdx.x < WARPS ? of_warps[threadIdx.x] : Moments{0.0f, 0.0f, 0.0f});
    }
    return moments;
}

// partial: [channels, gridDim.x / channels], written once each. The parameters are those of stats_03_shuffle.cu.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_partial(const float *x, Moments *partial, unsigned images, unsigned channels,
                  unsigned plane,  // H·W
                  unsigned slots,  // of a plane: plane / 4, or enough for any alignment where 4 does not divide it
                  unsigned share   // slots a block
    ) {
    unsigned splits = gridDim.x / channels;
    unsigned c = blockIdx.x / splits;
    unsigned first = blockIdx.x % splits * share;
    unsigned end = min(first + share, images * slots);
    Moments moments = {0.0f, 0.0f, 0.0f};
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
            const float *v = s[j].v;
            if (s[j].first == 0 && s[j].end == 4) {
                float m = ((v[0] + v[1]) + (v[2] + v[3])) * 0.25f;
                float a = v[0] - m, b = v[1] - m, c = v[2] - m, d = v[3] - m;
                merge(moments, Moments{4.0f, m, (a * a + b * b) + (c * c + d * d)});
            } else {
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    if (i >= s[j].first && i < s[j].end) {
                        merge(moments, Moments{1.0f, v[i], 0.0f});
                    }
                }
            }
        }
    }
    moments = across_block(moments);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = moments;
    }
}
// ANCHOR_END: kernel

// A block a channel, whose threads stride through the channel's `splits` partial results.
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_finish(const Moments *partial, float *mean, float *variance, unsigned splits) {
    unsigned c = blockIdx.x;
    Moments moments = {0.0f, 0.0f, 0.0f};
    for (unsigned s = threadIdx.x; s < splits; s += THREADS) {
        merge(moments, partial[(size_t)c * splits + s]);
    }
    moments = across_block(moments);
    if (threadIdx.x == 0) {
        mean[c] = moments.mean;
        variance[c] = moments.m2 / moments.count;
    }
}
