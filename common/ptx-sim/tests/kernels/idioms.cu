// Ways of working together that occur in practice, each with a twin that lacks one fence, barrier or lane: the sanitiser must
// pass the first and find the second. `idioms.ptx` is this file, compiled by `compile.py`.

#define KERNEL extern "C" __global__ void

// Blocks that each begin with a barrier

KERNEL barrier_first(float* out) {
    __shared__ float tile[64];
    __syncthreads();
    if (threadIdx.x == 0) tile[blockIdx.x % 2] = blockIdx.x;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockIdx.x % 2];
}

KERNEL barrier_first_only(float* out) {
    __shared__ float tile[64];
    __syncthreads();
    if (threadIdx.x == 0) tile[blockIdx.x % 2] = blockIdx.x;
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockIdx.x % 2];
}

// Locks

__device__ int load_acquire(int* at) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

// Turns are passed on by an addition, taken by an acquire, and the last block resets the counter by a plain store.
KERNEL passes_a_turn(int* turn, float* value) {
    if (threadIdx.x == 0) {
        while (load_acquire(turn) != (int)blockIdx.x) { }
        *value += 1.0f;
        if (blockIdx.x == gridDim.x - 1) {
            *turn = 0;
        } else {
            asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(turn) : "memory");
        }
    }
}

KERNEL passes_a_turn_without_fence(int* turn, float* value) {
    if (threadIdx.x == 0) {
        while (load_acquire(turn) != (int)blockIdx.x) { }
        *value += 1.0f;
        asm volatile("red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(turn) : "memory");
    }
}

// As CUTLASS's split-K: the whole block waits for its turn, and the last one resets the flag.
KERNEL serial_split(int* turn, float* sums) {
    if (threadIdx.x == 0) {
        while (load_acquire(turn) != (int)blockIdx.x) { }
    }
    __syncthreads();
    if (blockIdx.x == 0) sums[threadIdx.x] = 1.0f;
    else sums[threadIdx.x] += 1.0f;
    __syncthreads();
    if (threadIdx.x == 0) {
        if (blockIdx.x == gridDim.x - 1) *turn = 0;
        else asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(turn) : "memory");
    }
}

KERNEL serial_split_signals_too_soon(int* turn, float* sums) {
    if (threadIdx.x == 0) {
        while (load_acquire(turn) != (int)blockIdx.x) { }
    }
    __syncthreads();
    if (blockIdx.x == 0) sums[threadIdx.x] = 1.0f;
    else sums[threadIdx.x] += 1.0f;
    if (threadIdx.x == 0) {
        asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(turn) : "memory");
    }
}

KERNEL ticket_lock(unsigned* next, volatile unsigned* serving, float* value) {
    if (threadIdx.x % 32 == 0) {
        unsigned mine = atomicAdd(next, 1u);
        while (*serving != mine) { }
        __threadfence();
        *value += 1.0f;
        __threadfence();
        *serving = mine + 1;
    }
}

KERNEL ticket_lock_without_fence(unsigned* next, volatile unsigned* serving, float* value) {
    if (threadIdx.x % 32 == 0) {
        unsigned mine = atomicAdd(next, 1u);
        while (*serving != mine) { }
        *value += 1.0f;
        *serving = mine + 1;
    }
}

// Each bin has a lock: a thread that has it adds to the bin.
KERNEL histogram_by_locks(const float* in, float* bins, int* locks, int bins_count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int bin = (int)(in[i % 251] * 7.0f) % bins_count;
    bool done = false;
    while (!done) {
        if (atomicCAS(&locks[bin], 0, 1) == 0) {
            __threadfence();
            bins[bin] += 1.0f;
            __threadfence();
            atomicExch(&locks[bin], 0);
            done = true;
        }
    }
}

KERNEL histogram_by_wrong_locks(const float* in, float* bins, int* locks, int bins_count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int bin = (int)(in[i % 251] * 7.0f) % bins_count;
    int lock = i % bins_count;
    bool done = false;
    while (!done) {
        if (atomicCAS(&locks[lock], 0, 1) == 0) {
            __threadfence();
            bins[bin] += 1.0f;
            __threadfence();
            atomicExch(&locks[lock], 0);
            done = true;
        }
    }
}

// The lock is tried only where it looks free, by a plain read.
KERNEL test_and_test_and_set(int* lock, float* value) {
    if (threadIdx.x == 0) {
        while (*(volatile int*)lock != 0 || atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
        __threadfence();
        *value += 1.0f;
        __threadfence();
        atomicExch(lock, 0);
    }
}

KERNEL lock_released_before_the_work(int* lock, float* value) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
        __threadfence();
        atomicExch(lock, 0);
        *value += 1.0f;
    }
}

// Compare and swap

// The Programming Guide's own atomicAdd of doubles.
KERNEL add_by_swaps(unsigned long long* address, double value) {
    unsigned long long old = *address, assumed;
    do {
        assumed = old;
        old = atomicCAS(address, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
}

KERNEL add_by_exchange(unsigned long long* address, double value) {
    unsigned long long old = *address;
    atomicCAS(address + 1, old, old);
    atomicExch(address, __double_as_longlong(value + __longlong_as_double(old)));
}

// A stack of nodes: pushed by everyone, popped by the threads of the last block.
KERNEL treiber_stack(int* top, int* next, float* values) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    values[node] = node;
    int head = *(volatile int*)top;
    for (;;) {
        *(volatile int*)&next[node] = head;
        __threadfence();
        int found = atomicCAS(top, head, node + 1);
        if (found == head) break;
        head = found;
    }
    if (threadIdx.x == 0) {
        int popped = *(volatile int*)top;
        __threadfence();
        float sum = 0.0f;
        for (int steps = 0; popped != 0 && steps < 64; ++steps) {
            sum += values[popped - 1];
            popped = *(volatile int*)&next[popped - 1];
        }
        values[gridDim.x * blockDim.x + blockIdx.x] = sum;
    }
}

KERNEL treiber_stack_without_fence(int* top, int* next, float* values) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    values[node] = node;
    int head = *(volatile int*)top;
    for (;;) {
        *(volatile int*)&next[node] = head;
        int found = atomicCAS(top, head, node + 1);
        if (found == head) break;
        head = found;
    }
    if (threadIdx.x == 0) {
        int popped = *(volatile int*)top;
        float sum = 0.0f;
        for (int steps = 0; popped != 0 && steps < 64; ++steps) {
            sum += values[popped - 1];
            popped = *(volatile int*)&next[popped - 1];
        }
        values[gridDim.x * blockDim.x + blockIdx.x] = sum;
    }
}

__device__ int find_root(volatile int* parent, int x) {
    while (parent[x] != x) x = parent[x];
    return x;
}

KERNEL union_find(int* parent, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= n) return;
    int y = (x * 7 + 3) % n;
    for (;;) {
        int a = find_root(parent, x), b = find_root(parent, y);
        if (a == b) break;
        int high = max(a, b), low = min(a, b);
        if (atomicCAS(&parent[high], high, low) == high) break;
    }
}

KERNEL union_find_by_stores(int* parent, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= n) return;
    int y = (x * 7 + 3) % n;
    int a = find_root(parent, x), b = find_root(parent, y);
    if (a != b) parent[max(a, b)] = min(a, b);
}

// 16 bytes at a time.
KERNEL exchange_pairs(ulonglong2* pair, ulonglong2* out) {
    unsigned long long low, high, mine = threadIdx.x + 1;
    asm volatile(
        "{ .reg .b128 v, old; mov.b128 v, {%2, %2}; atom.relaxed.gpu.global.exch.b128 old, [%3], v; mov.b128 {%0, %1}, old; }"
        : "=l"(low), "=l"(high) : "l"(mine), "l"(pair) : "memory");
    out[blockIdx.x * blockDim.x + threadIdx.x] = make_ulonglong2(low, high);
}

KERNEL exchange_pairs_and_read(ulonglong2* pair, ulonglong2* out) {
    unsigned long long low, high, mine = threadIdx.x + 1;
    asm volatile(
        "{ .reg .b128 v, old; mov.b128 v, {%2, %2}; atom.relaxed.gpu.global.exch.b128 old, [%3], v; mov.b128 {%0, %1}, old; }"
        : "=l"(low), "=l"(high) : "l"(mine), "l"(pair) : "memory");
    ulonglong2 now = *pair;
    out[blockIdx.x * blockDim.x + threadIdx.x] = make_ulonglong2(low + now.x, high + now.y);
}

// Counters and flags of the whole grid

KERNEL sets_then_adds(int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(count, 1);
}

KERNEL sets_to_zero_then_adds(int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) *count = 0;
    if (i < n) atomicAdd(count, 1);
}

KERNEL sets_to_zero_before_a_barrier(int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) *count = 0;
    __syncthreads();
    if (i < n) atomicAdd(count, 1);
}

// Single-pass reduction as in NVIDIA's threadFenceReduction sample; the counter is reset for the next launch.
KERNEL single_pass_sum(const float* in, volatile float* partial, unsigned* count, float* out) {
    __shared__ float warps[32];
    __shared__ bool last;
    float sum = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; ++i) sum += warps[i];
        partial[blockIdx.x] = sum;
        __threadfence();
        unsigned ticket = atomicInc(count, gridDim.x);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float all = 0.0f;
        for (int i = 0; i < gridDim.x; ++i) all += partial[i];
        *out = all;
        *count = 0;
    }
}

KERNEL single_pass_sum_without_fence(const float* in, float* partial, unsigned* count, float* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = in[blockIdx.x];
        unsigned ticket = atomicInc(count, gridDim.x);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float all = 0.0f;
        for (int i = 0; i < gridDim.x; ++i) all += partial[i];
        *out = all;
    }
}

// Decoupled look-back: status 1 has an aggregate, 2 an inclusive prefix.
KERNEL look_back(const int* in, int* out, volatile int* status, int* aggregates, int* prefixes, unsigned* tickets) {
    __shared__ int tile[64];
    __shared__ unsigned ticket;
    __shared__ int before;
    if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1u);
    __syncthreads();
    unsigned at = ticket;
    tile[threadIdx.x] = in[at * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int offset = 1; offset < blockDim.x; offset *= 2) {
        int other = threadIdx.x >= offset ? tile[threadIdx.x - offset] : 0;
        __syncthreads();
        tile[threadIdx.x] += other;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        int all = tile[blockDim.x - 1], sum = 0;
        if (at != 0) {
            aggregates[at] = all;
            __threadfence();
            status[at] = 1;
            for (int i = (int)at - 1; i >= 0; --i) {
                int known;
                while ((known = status[i]) == 0) { }
                __threadfence();
                if (known == 2) {
                    sum += prefixes[i];
                    break;
                }
                sum += aggregates[i];
            }
        }
        prefixes[at] = sum + all;
        __threadfence();
        status[at] = 2;
        before = sum;
    }
    __syncthreads();
    out[at * blockDim.x + threadIdx.x] = before + tile[threadIdx.x];
}

KERNEL look_back_without_fence(const int* in, int* out, volatile int* status, int* aggregates, int* prefixes, unsigned* tickets) {
    if (threadIdx.x != 0) return;
    unsigned at = atomicAdd(tickets, 1u);
    int sum = 0;
    if (at != 0) {
        while (status[at - 1] != 2) { }
        sum = prefixes[at - 1];
    }
    prefixes[at] = sum + in[at];
    status[at] = 2;
    out[at] = sum;
}

// Keeps what is positive, in place. A block has read its part once it knows its count, which a later block's places follow from.
KERNEL compact_in_place(int* data, volatile int* ends) {
    __shared__ int kept[64];
    __shared__ int start;
    int mine = data[blockIdx.x * blockDim.x + threadIdx.x];
    kept[threadIdx.x] = mine > 0;
    __syncthreads();
    int before = 0, all = 0;
    for (int i = 0; i < blockDim.x; ++i) {
        before += i < threadIdx.x ? kept[i] : 0;
        all += kept[i];
    }
    if (threadIdx.x == 0) {
        int end = 1;
        if (blockIdx.x > 0) {
            while ((end = ends[blockIdx.x - 1]) == 0) { }
        }
        start = end - 1;
        ends[blockIdx.x] = end + all;
    }
    __syncthreads();
    if (mine > 0) data[start + before] = mine;
}

// The first thread tells before the others of its block have read.
KERNEL shift_in_place_too_early(int* data, volatile int* ready) {
    int mine = data[blockIdx.x * blockDim.x + threadIdx.x];
    if (threadIdx.x == 0) {
        if (blockIdx.x > 0) {
            while (ready[blockIdx.x - 1] == 0) { }
        }
        ready[blockIdx.x] = 1 + (mine & 0);
    }
    __syncthreads();
    if (blockIdx.x > 0) data[(blockIdx.x - 1) * blockDim.x + threadIdx.x] = mine; // over what others may yet read
}

// What is handed over without a fence is what was read, not what was written.
KERNEL shift_in_place_and_read(int* data, int* out, volatile int* ready) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    data[at] += 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        if (blockIdx.x > 0) {
            while (ready[blockIdx.x - 1] == 0) { }
        }
        ready[blockIdx.x] = 1;
    }
    __syncthreads();
    out[at] = blockIdx.x > 0 ? data[at - blockDim.x] : 0; // the other block's writes
}

// Work is drawn by ticket; what a task makes is used by a later one.
KERNEL work_queue(unsigned* head, int* ready, float* results, int tasks) {
    __shared__ int task;
    for (;;) {
        if (threadIdx.x == 0) task = (int)atomicAdd(head, 1u);
        __syncthreads();
        int mine = task;
        __syncthreads();
        if (mine >= tasks) break;
        if (mine > 0) {
            if (threadIdx.x == 0) {
                while (load_acquire(&ready[mine - 1]) == 0) __nanosleep(50);
            }
            __syncthreads();
        }
        float before = mine > 0 ? results[(mine - 1) * blockDim.x + (threadIdx.x + 1) % blockDim.x] : 0.0f;
        results[mine * blockDim.x + threadIdx.x] = before + 1.0f;
        __syncthreads();
        if (threadIdx.x == 0) asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(&ready[mine]) : "memory");
    }
}

// The release comes before the other threads of the block have written.
KERNEL work_in_turn_without_barrier(int* ready, float* results) {
    int mine = blockIdx.x;
    if (mine > 0) {
        if (threadIdx.x == 0) {
            while (load_acquire(&ready[mine - 1]) == 0) __nanosleep(50);
        }
        __syncthreads();
    }
    float before = mine > 0 ? results[(mine - 1) * blockDim.x + (threadIdx.x + 1) % blockDim.x] : 0.0f;
    results[mine * blockDim.x + threadIdx.x] = before + 1.0f;
    if (threadIdx.x == 0) asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(&ready[mine]) : "memory");
}

// Known within the block by a fence of block scope, and to all by one of device scope.
KERNEL hands_on_what_it_was_handed(int* flags, float* value) {
    __shared__ int inner;
    if (threadIdx.x == 0) inner = 0;
    __syncthreads();
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            *value = 5.0f;
            __threadfence_block();
            atomicExch(&inner, 1);
        } else if (threadIdx.x == 32) {
            while (atomicAdd(&inner, 0) == 0) { }
            __threadfence();
            atomicExch(flags, 1);
        }
    } else if (threadIdx.x == 0) {
        while (atomicAdd(flags, 0) == 0) { }
        __threadfence();
        flags[blockIdx.x] = (int)*value;
    }
}

KERNEL hands_on_within_the_block_only(int* flags, float* value) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        *value = 5.0f;
        __threadfence_block();
        atomicExch(flags, 1);
    } else {
        while (atomicAdd(flags, 0) == 0) { }
        __threadfence();
        flags[blockIdx.x] = (int)*value;
    }
}

// Barriers

// Three ways to one barrier, which is not where they all meet again: some lanes return.
KERNEL many_ways_to_a_barrier(const int* in, int* out) {
    __shared__ int tile[64];
    int kind = in[threadIdx.x] % 4, value;
    if (kind == 0) {
        value = 1;
    } else if (kind == 1) {
        value = in[threadIdx.x] * 3;
    } else {
        if (kind == 3) return;
        value = 7;
    }
    tile[threadIdx.x] = value;
    __syncthreads();
    out[threadIdx.x] = value;
}

// A producer warp and a consumer warp, two buffers, four named barriers.
KERNEL named_barriers(const float* in, float* out, int n) {
    __shared__ float tile[2][32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < n; ++i) {
            if (i >= 2) asm volatile("bar.sync %0, 64;" ::"r"(3 + i % 2) : "memory");
            tile[i % 2][lane] = in[i * 32 + lane];
            asm volatile("bar.arrive %0, 64;" ::"r"(1 + i % 2) : "memory");
        }
    } else {
        for (int i = 0; i < n; ++i) {
            asm volatile("bar.sync %0, 64;" ::"r"(1 + i % 2) : "memory");
            out[i * 32 + lane] = tile[i % 2][31 - lane];
            if (i + 2 < n) asm volatile("bar.arrive %0, 64;" ::"r"(3 + i % 2) : "memory");
        }
    }
}

KERNEL named_barriers_one_way(const float* in, float* out, int n) {
    __shared__ float tile[2][32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < n; ++i) {
            tile[i % 2][lane] = in[i * 32 + lane];
            asm volatile("bar.arrive %0, 64;" ::"r"(1 + i % 2) : "memory");
            asm volatile("bar.sync 5, 32;" ::: "memory");
        }
    } else {
        for (int i = 0; i < n; ++i) {
            asm volatile("bar.sync %0, 64;" ::"r"(1 + i % 2) : "memory");
            out[i * 32 + lane] = tile[i % 2][31 - lane];
        }
    }
}

// The last warp has 16 threads: it counts as a whole one.
KERNEL ragged_named_barrier(float* out) {
    __shared__ float tile[48];
    tile[threadIdx.x] = threadIdx.x;
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = tile[47 - threadIdx.x];
}

// Within a warp

KERNEL warp_ballot_scan(int* out) {
    __shared__ int kept[32];
    unsigned mask = __ballot_sync(~0u, threadIdx.x % 3 == 0);
    if (threadIdx.x % 3 == 0) kept[__popc(mask & ((1u << threadIdx.x) - 1))] = threadIdx.x;
    __syncwarp();
    if (threadIdx.x < __popc(mask)) out[threadIdx.x] = kept[threadIdx.x];
}

KERNEL warp_ballot_scan_without_barrier(int* out) {
    __shared__ int kept[32];
    unsigned mask = __ballot_sync(~0u, threadIdx.x % 3 == 0);
    if (threadIdx.x % 3 == 0) kept[__popc(mask & ((1u << threadIdx.x) - 1))] = threadIdx.x;
    if (threadIdx.x < __popc(mask)) out[threadIdx.x] = kept[threadIdx.x];
}

// Half of the lanes have left; the mask still names them, and nobody reads from them.
KERNEL mask_of_lanes_that_left(int* out) {
    if (threadIdx.x >= 16) return;
    out[threadIdx.x] = __shfl_xor_sync(~0u, threadIdx.x, 1);
    __syncwarp();
    out[threadIdx.x] += __any_sync(~0u, threadIdx.x == 3);
}

KERNEL shuffle_from_lanes_that_left(int* out) {
    if (threadIdx.x >= 16) return;
    out[threadIdx.x] = __shfl_xor_sync(~0u, threadIdx.x, 16);
}

// 16 lanes add up: what the upper ones read is not used.
KERNEL half_warp_sum(float* out) {
    float sum = threadIdx.x;
    if (threadIdx.x < 16) {
        for (int offset = 8; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffu, sum, offset);
        if (threadIdx.x == 0) out[0] = sum;
    }
}

KERNEL half_warp_sum_from_outside(float* out) {
    float sum = threadIdx.x;
    if (threadIdx.x < 16) {
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffu, sum, offset);
        if (threadIdx.x == 0) out[0] = sum;
    }
}

// Local memory that is read in any case, and used only where it was written.
KERNEL chosen_by_select(const int* in, int* out, int n) {
    int values[8];
    for (int i = 0; i < n; ++i) values[i] = in[i];
    int at = in[threadIdx.x] % 8, read, chosen = -1;
    asm volatile("ld.local.s32 %0, [%1];" : "=r"(read) : "l"(__cvta_generic_to_local(&values[at])) : "memory");
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.s32 %0, %3, %0, p; }" : "+r"(chosen) : "r"(at), "r"(n), "r"(read));
    out[threadIdx.x] = chosen;
}

KERNEL chosen_by_wrong_select(const int* in, int* out, int n) {
    int values[8];
    for (int i = 0; i < n; ++i) values[i] = in[i];
    int at = in[threadIdx.x] % 8, read, chosen = -1;
    asm volatile("ld.local.s32 %0, [%1];" : "=r"(read) : "l"(__cvta_generic_to_local(&values[at])) : "memory");
    asm volatile("{ .reg .pred p; setp.le.s32 p, %1, %2; selp.s32 %0, %3, %0, p; }" : "+r"(chosen) : "r"(at), "r"(n), "r"(read));
    out[threadIdx.x] = chosen;
}

// Matrices that are read ahead: the fragments past the last step are loaded like the others, and nobody uses them.
__device__ void load_fragments(const int* tile, int* fragments) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                 : "r"((unsigned)__cvta_generic_to_shared(tile + 4 * threadIdx.x)) : "memory");
}

template <int MORE>
__device__ void read_ahead(const int* in, int* out, int n) {
    __shared__ int tiles[4][128];
    for (int i = threadIdx.x; i < n * 128; i += 32) tiles[i / 128][i % 128] = in[i];
    __syncwarp();
    int fragments[4], next[4], sum = 0;
    load_fragments(tiles[0], fragments);
    for (int step = 0; step < n + MORE; ++step) {
        load_fragments(tiles[step + 1], next);
        for (int i = 0; i < 4; ++i) sum += fragments[i], fragments[i] = next[i];
    }
    out[threadIdx.x] = sum;
}

KERNEL fragments_read_ahead(const int* in, int* out, int n) { read_ahead<0>(in, out, n); }

KERNEL fragments_read_ahead_and_used(const int* in, int* out, int n) { read_ahead<1>(in, out, n); }

// Four of a matrix's eight rows are there: lanes 0 to 15 have them, or, transposed, those with l % 4 < 2.
template <bool TRANSPOSED>
__device__ void half_a_matrix(const int* in, int* out, int lanes) {
    __shared__ int tile[32];
    if (threadIdx.x < 16) tile[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    unsigned at = (unsigned)__cvta_generic_to_shared(tile + 4 * (threadIdx.x % 8));
    int fragment;
    if (TRANSPOSED) asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(fragment) : "r"(at) : "memory");
    else asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(fragment) : "r"(at) : "memory");
    if ((TRANSPOSED ? threadIdx.x % 4 : threadIdx.x) < lanes) out[threadIdx.x] = fragment;
}

KERNEL half_a_matrix_by_rows(const int* in, int* out, int lanes) { half_a_matrix<false>(in, out, lanes); }

KERNEL half_a_matrix_by_columns(const int* in, int* out, int lanes) { half_a_matrix<true>(in, out, lanes); }

// Copies under way

template <int WAIT>
__device__ void stages(const float* in, float* out, int n) {
    __shared__ float tile[3][64];
    auto fetch = [&](int i) {
        if (i < n) {
            unsigned to = (unsigned)__cvta_generic_to_shared(&tile[i % 3][threadIdx.x]);
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + i * 64 + threadIdx.x) : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sum = 0.0f;
    fetch(0);
    fetch(1);
    for (int i = 0; i < n; ++i) {
        asm volatile("cp.async.wait_group %0;" ::"n"(WAIT) : "memory");
        __syncthreads();
        fetch(i + 2);
        sum += tile[i % 3][63 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}

KERNEL three_stages(const float* in, float* out, int n) { stages<1>(in, out, n); }

KERNEL three_stages_waiting_for_too_few(const float* in, float* out, int n) { stages<2>(in, out, n); }
