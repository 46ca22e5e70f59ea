// What the sanitiser must find, and what it must let pass. `sanitise.ptx` is this file, compiled by `compile.py`.

// Wrong

extern "C" __global__ void missing_barrier(float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

extern "C" __global__ void missing_warp_barrier(float* out) {
    __shared__ float tile[32];
    tile[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = tile[31 - threadIdx.x];
}

extern "C" __global__ void buffer_reused_too_soon(const float* in, float* out, int n) {
    __shared__ float tile[64];
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {
        tile[threadIdx.x] = in[i * 64 + threadIdx.x];
        __syncthreads();
        sum += tile[63 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void adds_without_atomic(float* sum) { *sum += 1.0f; }

extern "C" __global__ void writes_different_values(int* out) { out[0] = blockIdx.x; }

extern "C" __global__ void last_block_without_fence(float* partial, unsigned* count, float* sum) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = blockIdx.x + 1.0f;
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float all = 0.0f;
        for (int i = 0; i < gridDim.x; ++i) all += ((volatile float*)partial)[i];
        *sum = all;
    }
}

extern "C" __global__ void poisoned_sum(const float* in, float* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum, in[i]);
}

extern "C" __global__ void shared_never_written(float* out) {
    __shared__ float tile[64];
    if (threadIdx.x < 63) tile[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void local_never_written(int* out, int n) {
    int values[8];
    for (int i = 1; i < n; ++i) values[i] = i;
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += values[(i * 3) % 8];
    out[threadIdx.x] = sum;
}

extern "C" __global__ void into_the_neighbour(float* out) {
    __shared__ float first[32], second[32];
    second[threadIdx.x] = 2.0f;
    first[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = first[threadIdx.x + 1] + second[threadIdx.x];
}

extern "C" __global__ void barrier_in_a_branch(float* out) {
    __shared__ float tile[32];
    tile[threadIdx.x] = 1.0f;
    if (threadIdx.x < 16) __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void different_barriers(float* out) {
    if (threadIdx.x < 32) {
        out[threadIdx.x] = 1.0f;
        __syncthreads();
    } else {
        out[threadIdx.x] = 2.0f;
        __syncthreads();
    }
    out[threadIdx.x] += 1.0f;
}

extern "C" __global__ void shuffle_from_nobody(float* out) {
    float sum = threadIdx.x;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    out[threadIdx.x] = sum;
}

extern "C" __global__ void shuffle_of_unwritten(const float* in, float* out, int written) {
    __shared__ float tile[32];
    if (threadIdx.x < written) tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    float sum = tile[threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (threadIdx.x == 0) out[0] = sum;
}

extern "C" __global__ void two_mistakes(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = in[i];
    if (i <= n) out[i] = value;
}

extern "C" __global__ void copy_not_waited_for(const float* in, float* out) {
    __shared__ float tile[64];
    unsigned to = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + threadIdx.x));
    asm volatile("cp.async.commit_group;");
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

// Right

extern "C" __global__ void warp_sums(const float* in, float* out, int n) {
    __shared__ float sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = i < n ? in[i] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0.0f;
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
        if (threadIdx.x == 0) out[blockIdx.x] = sum;
    }
}

extern "C" __global__ void double_buffer(const float* in, float* out, int n) {
    __shared__ float tile[2][64];
    float sum = 0.0f;
    tile[0][threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        if (i + 1 < n) tile[(i + 1) % 2][threadIdx.x] = in[(i + 1) * 64 + threadIdx.x];
        sum += tile[i % 2][63 - threadIdx.x];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void async_double_buffer(const float* in, float* out, int n) {
    __shared__ float tile[2][64];
    auto fetch = [&](int i) {
        unsigned to = (unsigned)__cvta_generic_to_shared(&tile[i % 2][threadIdx.x]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + i * 64 + threadIdx.x));
        asm volatile("cp.async.commit_group;");
    };
    float sum = 0.0f;
    fetch(0);
    for (int i = 0; i < n; ++i) {
        if (i + 1 < n) {
            fetch(i + 1);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        sum += tile[i % 2][63 - threadIdx.x];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

extern "C" __global__ void some_leave_early(const float* in, float* out, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    int last = min(63, n - 1 - (int)(blockIdx.x * blockDim.x));
    out[i] = tile[last - threadIdx.x];
}

extern "C" __global__ void warp_barriers(float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = threadIdx.x;
    __syncwarp();
    float other = tile[threadIdx.x ^ 31];
    __syncwarp();
    tile[threadIdx.x] = 2.0f * other;
    __syncwarp();
    out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

extern "C" __global__ void half_warps(float* out) {
    __shared__ float tile[32];
    unsigned half = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
    tile[threadIdx.x] = threadIdx.x;
    __syncwarp(half);
    out[threadIdx.x] = tile[threadIdx.x ^ 15];
}

extern "C" __global__ void last_block(float* partial, unsigned* count, float* sum) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = blockIdx.x + 1.0f;
        __threadfence();
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float mine = 0.0f;
        for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) mine += partial[i];
        atomicAdd(sum, mine);
    }
}

extern "C" __global__ void last_block_of_many_writers(float* partial, unsigned* count, float* sum) {
    __shared__ bool last;
    partial[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(count, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        float mine = 0.0f;
        for (int i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x) mine += partial[i];
        atomicAdd(sum, mine);
    }
}

extern "C" __global__ void chain(volatile int* flag, float* value) {
    if (threadIdx.x == 0) {
        while (*flag != blockIdx.x) { }
        __threadfence();
        *value += 1.0f;
        __threadfence();
        *flag = blockIdx.x + 1;
    }
}

extern "C" __global__ void lock(int* mutex, float* value) {
    if (threadIdx.x == 0) {
        while (atomicCAS(mutex, 0, 1) != 0) { }
        __threadfence();
        *value += 1.0f;
        __threadfence();
        atomicExch(mutex, 0);
    }
}

extern "C" __global__ void grid_barrier(unsigned* arrived, float* cells, int rounds) {
    unsigned blocks = gridDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int all = gridDim.x * blockDim.x;
    for (int round = 0; round < rounds; ++round) {
        float* from = cells + (round % 2) * all;
        float* to = cells + ((round + 1) % 2) * all;
        to[i] = from[(i + blockDim.x) % all] + 1.0f;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1u);
            while (atomicAdd(arrived, 0u) < blocks * (round + 1)) { }
            __threadfence();
        }
        __syncthreads();
    }
}

extern "C" __global__ void everybody_sets_the_flag(int* flag) { *flag = 1; }

extern "C" __global__ void producer_and_consumer(const float* in, float* out, int n) {
    __shared__ float tile[32];
    if (threadIdx.x < 32) {
        for (int i = 0; i < n; ++i) {
            tile[threadIdx.x] = in[i * 32 + threadIdx.x];
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
    } else {
        for (int i = 0; i < n; ++i) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[i * 32 + threadIdx.x - 32] = tile[63 - threadIdx.x];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
}

extern "C" __global__ void flag_in_shared_memory(float* out) {
    __shared__ float value[32];
    __shared__ int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        value[threadIdx.x] = threadIdx.x + 1.0f;
        __syncwarp();
        if (threadIdx.x == 0) {
            __threadfence_block();
            atomicExch(&ready, 1);
        }
    } else {
        if (threadIdx.x == 32) {
            while (atomicAdd(&ready, 0) == 0) { }
            __threadfence_block();
        }
        __syncwarp();
        out[threadIdx.x - 32] = value[63 - threadIdx.x];
    }
}

extern "C" __global__ void bytes_of_words(unsigned char* out) {
    __shared__ unsigned char tile[128];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    *(unsigned*)(out + 4 * threadIdx.x) = *(unsigned*)(tile + 4 * (threadIdx.x % 32));
}

extern "C" __global__ void in_place_neighbours(float* data, int n) {
    int i = threadIdx.x;
    float left = i > 0 ? data[i - 1] : 0.0f, right = i + 1 < n ? data[i + 1] : 0.0f;
    __syncthreads();
    data[i] = left + right;
}
