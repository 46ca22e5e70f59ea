// Communication within a warp and a block. Launched with one block of 64 threads unless specified.

extern "C" __global__ void shuffles(const int *x, const double *d, int *out, double *wide) {
    int t = threadIdx.x, n = blockDim.x, lane = t & 31, row = 0;
    int v = x[t];
    auto put = [&](int value) { out[row++ * n + t] = value; };
    put(__shfl_sync(~0u, v, 5));
    put(__shfl_sync(~0u, v, lane * 3 + 1));
    put(__shfl_up_sync(~0u, v, 3));
    put(__shfl_down_sync(~0u, v, 2));
    put(__shfl_xor_sync(~0u, v, 16));
    put(__shfl_sync(~0u, v, 2, 8));
    put(__shfl_up_sync(~0u, v, 1, 8));
    put(__shfl_down_sync(~0u, v, 3, 16));
    put(__shfl_xor_sync(~0u, v, 5, 8));
    wide[t] = __shfl_xor_sync(~0u, d[t], 1);
    wide[n + t] = __shfl_down_sync(~0u, d[t], 9);
}

extern "C" __global__ void votes(const int *x, unsigned *out) {
    int t = threadIdx.x, n = blockDim.x, row = 0, all_equal;
    int v = x[t];
    auto put = [&](unsigned value) { out[row++ * n + t] = value; };
    put(__ballot_sync(~0u, v > 40));
    put(__any_sync(~0u, v == 3));
    put(__all_sync(~0u, v < 90));
    put(__match_any_sync(~0u, v / 25));
    put(__match_any_sync(~0u, (long long)(v % 4) << 40));
    put(__match_all_sync(~0u, t / 32, &all_equal));
    put(all_equal);
    put(__match_all_sync(~0u, v, &all_equal));
    put(all_equal);
    unsigned active = 0, inside = 0;
    if (v & 1) {
        active = __activemask();
        inside = __ballot_sync(active, v > 50);
    }
    put(active);
    put(inside);
    __syncwarp();
}

// Loops of different length and nested branches: lanes leave and come back.
extern "C" __global__ void divergence(const int *x, int *out) {
    int t = threadIdx.x, n = blockDim.x;
    unsigned v = x[t];
    int steps = 0, odd = 0;
    while (v != 1) {
        if (v & 1) {
            v = 3 * v + 1;
            if (++odd % 3 == 0) continue;
        } else {
            v /= 2;
        }
        if (++steps > 60) break;
    }
    out[t] = steps;
    out[n + t] = odd;
    int total = 0;
    for (int i = 0; i < t % 7; i++)
        for (int j = i; j < t % 5; j++) {
            if ((i + j) % 3 == 1) goto next;
            total += i * 10 + j;
        next:;
        }
    out[2 * n + t] = total + __popc(__ballot_sync(~0u, total > 0));
}

template <typename T>
__device__ T warp_sum(T v) {
    for (int offset = 16; offset; offset >>= 1) v += __shfl_xor_sync(~0u, v, offset);
    return v;
}

// Grid-stride loop, warp sums, block sum in dynamic shared memory, and the last block to arrive finishes.
extern "C" __global__ void reduction(const float *x, float *partial, float *sum, unsigned *arrived, int n) {
    extern __shared__ float warps[];
    __shared__ bool last;
    int t = threadIdx.x;
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) v += x[i];
    v = warp_sum(v);
    if (t % 32 == 0) warps[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = warp_sum(t < blockDim.x / 32 ? warps[t] : 0.0f);
        if (t == 0) {
            partial[blockIdx.x] = v;
            __threadfence();
            last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
        }
    }
    __syncthreads();
    if (last && t == 0) {
        float total = 0;
        for (unsigned b = 0; b < gridDim.x; b++) total += ((volatile float *)partial)[b];
        *sum = total;
    }
}

extern "C" __global__ void inclusive_scan(const int *x, int *out) {
    __shared__ int totals[2];
    int t = threadIdx.x, lane = t & 31, v = x[t];
    for (int offset = 1; offset < 32; offset *= 2) {
        int before = __shfl_up_sync(~0u, v, offset);
        if (lane >= offset) v += before;
    }
    if (lane == 31) totals[t / 32] = v;
    __syncthreads();
    out[t] = v + (t >= 32 ? totals[0] : 0);
}

extern "C" __global__ void block_votes(const int *x, int *out) {
    int t = threadIdx.x, n = blockDim.x, v = x[t];
    out[t] = __syncthreads_count(v > 40);
    out[n + t] = __syncthreads_and(v > 0);
    out[2 * n + t] = __syncthreads_or(v == 3) != 0;
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void reductions_in_hardware(const int *x, int *out) {
    int t = threadIdx.x, n = blockDim.x, v = x[t] - 50, row = 0;
    auto put = [&](int value) { out[row++ * n + t] = value; };
    put(__reduce_add_sync(~0u, v));
    put(__reduce_min_sync(~0u, v));
    put(__reduce_max_sync(~0u, v));
    put(__reduce_min_sync(~0u, (unsigned)v));
    put(__reduce_and_sync(~0u, (unsigned)v));
    put(__reduce_or_sync(~0u, (unsigned)v));
    put(__reduce_xor_sync(~0u, (unsigned)v));
    unsigned half_warp = t & 16 ? 0xffff0000u : 0x0000ffffu;
    put(__reduce_add_sync(half_warp, v));
}
#endif
