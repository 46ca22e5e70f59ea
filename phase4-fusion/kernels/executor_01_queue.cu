// A whole network in one launch: resident blocks take tasks from a queue in device memory, and a task waits for counters, not for a
// launch.
//
//     head ──► task 0  task 1  task 2 …          each: a tile of a layer, the counters it waits for, the one it increases
//                 │       │       │
//              block 3  block 0  block 7         one warp of a block fetches and waits; eight compute the task before
//
// Tasks lie in an order in which each comes after those it waits for, and blocks take them in that order. So the first task that is
// not done has been taken, and all it waits for is done: some block always goes on, however few of them are on the GPU at once. The
// last block to leave sets all counters back, so that a pass is one launch and nothing else.
//
// Limited by the way of a value from one block to the next, twice through the L2 cache, where layers are small; by f32 arithmetic
// where they are large.
// nvrtc: --gpu-architecture=compute_80 // run: queue
#include "executor.cuh"

constexpr int HEAD = 0, GONE = 1, FIRST_COUNTER = 2;  // counters: the queue's next task, blocks that have left, then those of tasks

struct Slot {
    Layer layer;
    unsigned pad[LAYER_WORDS - sizeof(Layer) / 4];
    Task task;
    unsigned fill[TASK_WORDS - sizeof(Task) / 4];
};

__device__ inline unsigned acquired(const unsigned *counter) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

// ANCHOR: fetch
// What the fetching warp does for a task: takes it, and waits until all it needs is there. Meanwhile its weights, which wait for
// nobody, come as near as the L2 cache.
__device__ inline void fetch(Slot &slot, const unsigned *tasks, const unsigned *layers, unsigned count, const Memory &memory) {
    unsigned lane = threadIdx.x % 32, number = 0;
    if (lane == 0) {
        number = atomicAdd(memory.counters + HEAD, 1);
    }
    number = __shfl_sync(~0u, number, 0);
    if (number >= count) {
        if (lane == 0) {
            slot.layer.operation = END;
        }
        return;
    }
    unsigned word = tasks[(size_t)number * TASK_WORDS + lane % TASK_WORDS];
    unsigned layer = __shfl_sync(~0u, word, 0);
    if (lane < TASK_WORDS) {
        reinterpret_cast<unsigned *>(&slot.task)[lane] = word;
    }
    for (unsigned at = lane; at < LAYER_WORDS; at += 32) {
        reinterpret_cast<unsigned *>(&slot.layer)[at] = layers[(size_t)layer * LAYER_WORDS + at];
    }
    __syncwarp();
    bool waited = false;
    for (int operand = 0; operand < 3; operand++) {
        const unsigned *counters = memory.counters + slot.task.first[operand];
        for (unsigned at = lane; at < slot.task.number[operand]; at += 32) {
            while (acquired(counters + at) < slot.layer.needed[operand]) {
                if (!waited && slot.layer.operation == PRODUCT) {
                    const float *weights = memory.parameters + slot.layer.weight + slot.task.column * slot.layer.tile;
                    unsigned begin = slot.task.part * slot.layer.part_depth;
                    unsigned end = min(begin + slot.layer.part_depth, slot.layer.depth);
                    for (unsigned k = begin + lane; k < end; k += 32) {
                        asm volatile("prefetch.global.L2 [%0];" ::"l"(weights + (size_t)k * slot.layer.pitch));
                    }
                }
                waited = true;
                __nanosleep(20);
            }
        }
    }
}
// ANCHOR_END: fetch

// ANCHOR: execute
// `counters` are zeros, and will be again.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    execute(const unsigned *tasks, const unsigned *layers, unsigned count, float *arena, const float *parameters, unsigned *counters,
            unsigned all_counters) {
    extern __shared__ __align__(16) float shared[];
    __shared__ Slot slots[2];
    Memory memory = {arena, parameters, counters};
    for (unsigned turn = 0;; turn++) {
        if (threadIdx.x >= WORKERS) {
            fetch(slots[turn % 2], tasks, layers, count, memory);
        } else if (turn > 0) {
            const Slot &slot = slots[(turn - 1) % 2];
            unsigned signal = slot.task.signal;
            bool complete = perform(slot.layer, slot.task, memory, shared);
            sync_workers();
            if (complete && threadIdx.x == 0) {
                __threadfence();  // what the block wrote comes before the count
                atomicAdd(counters + signal, 1);
            }
            __syncwarp();  // as in sync_workers
        }
        __syncthreads();  // the next task is there, and the one before is done
        if (slots[turn % 2].layer.operation == END) {
            break;
        }
    }
    // ANCHOR: reset
    bool is_last = false;
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(counters + GONE, 1) + 1 == gridDim.x;
        __threadfence();
    }
    if (__syncthreads_or(is_last)) {  // nobody looks any more
        for (unsigned at = threadIdx.x; at < all_counters; at += THREADS) {
            counters[at] = 0;
        }
    }
    // ANCHOR_END: reset
}
// ANCHOR_END: execute
