// Attention with roles: a producer copies, and consumers of 64 queries take turns, so that one's softmax runs under another's products.
//
//     tensor cores     S 1 O 0 (consumer 0) │ S 1 O 0 (consumer 1) │ S 2 O 1 (consumer 0) │ …
//     exponentials     weigh 0 (consumer 1) │ weigh 1 (consumer 0) │ weigh 1 (consumer 1) │ …
//
// The loop stands in attention_roles.cuh. The grid stays: as many blocks as there is room for, each of which takes one tile of queries after
// the other, so that the producer has the next tile's Q and keys on their way while O is written. With a mask tiles are of different
// lengths: all heads' tiles go from the longest to the shortest, dealt out to and fro, so that blocks come out even.
// Limited by the exponentials where heads are small: 16 per SM and cycle, beside 2048 multiply-adds.
// nvrtc: --gpu-architecture=compute_90a // run: attention // trial: attention
#include "attention_roles.cuh"

// Registers are per thread; an SM has 65536.
template <class OF_ELEMENT, int OF_HEAD>
struct Shape {
    using Element = OF_ELEMENT;
    static constexpr int HEAD = OF_HEAD, CONSUMERS = 2, KEYS = HEAD > 80 ? 176 : 128, STAGES = HEAD <= 64 ? 4 : 2;
    static constexpr int THREADS = (1 + CONSUMERS) * GROUP_THREADS, PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
};

// A head of up to 64 values leaves registers for a third consumer, so that more exponentials run under the products.
template <class OF_ELEMENT, int OF_HEAD>
struct Wide {
    using Element = OF_ELEMENT;
    static constexpr int HEAD = OF_HEAD, CONSUMERS = 3, KEYS = 128, STAGES = 2;
    static constexpr int THREADS = (1 + CONSUMERS) * GROUP_THREADS, PRODUCER_REGISTERS = 32, CONSUMER_REGISTERS = 160;
};

// ANCHOR: share
// What a block does for each of its tiles of queries: with a mask, by length.
template <class T, class Take>
__device__ inline void each_tile(const Problem &problem, Take take) {
    int tiles = Work<T>::count(problem);
    for (int first = 0, own = blockIdx.x; first + own < tiles * problem.matrices; first += gridDim.x, own = gridDim.x - 1 - own) {
        int item = first + own;
        take(problem.causal ? Work<T>(problem, item % problem.matrices, tiles - 1 - item / problem.matrices)
                            : Work<T>(problem, item / tiles, item % tiles));
    }
}
// ANCHOR_END: share

// ANCHOR: kernel
template <class T>
__device__ void attention(const TensorMap &q, const TensorMap &k, const TensorMap &v, unsigned short *out, float *lse,
                          const Problem &problem) {
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory);
    if (threadIdx.x == 0) {
        Barriers<T>(shared).init();
    }
    __syncthreads();  // the barriers are ready

    Ring<T::STAGES> ring;
    unsigned q_parity = 0;
    if (threadIdx.x < GROUP_THREADS) {
        give_registers_back<T::PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            each_tile<T>(problem, [&](const Work<T> &work) {
                fetch<T>(q, k, v, shared, problem, work, q_parity, ring);
                q_parity ^= 1;
            });
        }
    } else {
        take_registers<T::CONSUMER_REGISTERS>();
        // The same in all lanes, and the compiler sees it: descriptors that follow from it stay in uniform registers.
        Turns<T::CONSUMERS> turns{__shfl_sync(~0u, (int)threadIdx.x / GROUP_THREADS - 1, 0)};
        turns.begin();
        each_tile<T>(problem, [&](const Work<T> &work) {
            float sums[T::HEAD / 2] = {};
            SoftmaxRows rows;
            attend<T>(sums, rows, shared, problem, work, q_parity, ring, turns);
            write_rows<typename T::Element>(sums, rows, out, lse, problem, work.matrix, work.first + turns.consumer * 64 + threadIdx.x % GROUP_THREADS / 32 * 16);
            q_parity ^= 1;
        });
        turns.end();
    }
}
// ANCHOR_END: kernel

#define ROLES_KERNEL(name, ...) ATTENTION_MAP_KERNEL(name, (__VA_ARGS__::THREADS, 1), __VA_ARGS__)
#define ROLES_KERNELS(ELEMENT, TYPE)                                       \
    ROLES_KERNEL(attention_40##TYPE, Shape<ELEMENT, 40>)                  \
    ROLES_KERNEL(attention_64##TYPE, Shape<ELEMENT, 64>)                  \
    ROLES_KERNEL(attention_80##TYPE, Shape<ELEMENT, 80>)                  \
    ROLES_KERNEL(attention_128##TYPE, Shape<ELEMENT, 128>)                \
    ROLES_KERNEL(attention_40##TYPE##_wide, Wide<ELEMENT, 40>)            \
    ROLES_KERNEL(attention_64##TYPE##_wide, Wide<ELEMENT, 64>)
ROLES_KERNELS(F16, )
ROLES_KERNELS(BF16, _bf16)
