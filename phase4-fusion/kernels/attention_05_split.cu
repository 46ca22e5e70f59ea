// Attention for few queries: the blocks of a cluster share a tile of 64 queries, each for a part of the keys, and add up their parts in each
// other's shared memory. One query and 16384 keys are one block's work in step 4; cut into eight slices, eight SMs read them.
//
//     slice 0   keys    0 …  2047 ──┐
//     slice 1   keys 2048 …  4095 ──┤  O without its denominator, the largest score and the sum of each row; then each block adds up
//        …                          │  64 / SLICES rows of all slices, scaled to the largest score of all
//     slice 7   keys 14336 … 16383 ─┘
//
// Limited by latency, or by the bytes of K and V.
// nvrtc: --gpu-architecture=compute_90a // run: attention // trial: attention
#include "attention_roles.cuh"

template <int OF_HEAD, int OF_SLICES>
struct Slice {
    using Element = F16;
    static constexpr int HEAD = OF_HEAD, CONSUMERS = 1, KEYS = 128, STAGES = HEAD <= 64 ? 4 : 3, SLICES = OF_SLICES;
    static constexpr int THREADS = (1 + CONSUMERS) * GROUP_THREADS;
};

// Where a block keeps its part of O, in place of the keys, and of each row the largest score and the sum. Rows are turned by 32 bytes,
// so that a warp's stores meet no bank twice.
template <class T>
struct Part {
    static constexpr int ROW = (T::HEAD * 4 + 127) / 128 * 128, SUMS = T::K + T::QUERIES * ROW;
    static_assert(SUMS + T::QUERIES * 16 <= T::V, "the keys' ring must hold a part of O");
    static __device__ unsigned place(unsigned shared, int row, int column) {
        return shared + T::K + row * ROW + ((column * 4) ^ row % 4 * 32);
    }
};

// ANCHOR: share
// Puts a block's part of O into its shared memory.
template <class T>
__device__ inline void share_part(const float (&sums)[T::HEAD / 2], const SoftmaxRows &rows, unsigned shared) {
    int first = threadIdx.x % GROUP_THREADS / 32 * 16 + own_row();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = first + half * 8;
        float total = rows.total(half);
#pragma unroll
        for (int i = half * 2; i < T::HEAD / 2; i += 4) {
            store_pair(Part<T>::place(shared, row, i / 4 * 8 + own_column()), sums[i], sums[i + 1]);
        }
        if (own_column() == 0) {
            store_pair(shared + Part<T>::SUMS + row * 16, rows.most[half], total);
        }
    }
}

// Adds up the parts of a tile: each block has some rows of all, each thread four values of a row at a time.
template <class T>
__device__ inline void add_parts(unsigned short *out, float *lse, unsigned shared, const Problem &problem, const Work<T> &work, int rank) {
    constexpr int ROWS = T::QUERIES / T::SLICES;
    for (int at = threadIdx.x % GROUP_THREADS * 4; at < ROWS * T::HEAD; at += GROUP_THREADS * 4) {
        int row = rank * ROWS + at / T::HEAD, column = at % T::HEAD, query = work.first + row;
        float of_row[T::SLICES][4], parts[T::SLICES][4], most = UNSEEN, total = 0.0f, sums[4] = {};
#pragma unroll
        for (int slice = 0; slice < T::SLICES; slice++) {
            read_four(of_row[slice], shared_address_in(shared + Part<T>::SUMS + row * 16, slice));
            read_four(parts[slice], shared_address_in(Part<T>::place(shared, row, column), slice));
        }
#pragma unroll
        for (int slice = 0; slice < T::SLICES; slice++) {
            most = fmaxf(most, of_row[slice][0]);
        }
#pragma unroll
        for (int slice = 0; slice < T::SLICES; slice++) {
            float weight = power_of_two((of_row[slice][0] - most) * problem.scale);
            total = fmaf(weight, of_row[slice][1], total);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sums[i] = fmaf(weight, parts[slice][i], sums[i]);
            }
        }
        if (query < problem.queries && column < problem.head) {
            float scale = 1.0f / total;
            unsigned short *to = out + problem.of_out(work.matrix / problem.heads, work.matrix % problem.heads, query) + column;
            F16::store_pair(to, sums[0] * scale, sums[1] * scale);
            F16::store_pair(to + 2, sums[2] * scale, sums[3] * scale);
            if (column == 0) {
                lse[(size_t)work.matrix * problem.queries + query] = log_sum_exp(most, total, problem.scale);
            }
        }
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

    int rank = cluster_rank();
    int tile = blockIdx.x / T::SLICES, tiles = Work<T>::count(problem);
    Work<T> work(problem, tile / tiles, tile % tiles);
    int first_step = rank * work.steps / T::SLICES;
    work.last_step = (rank + 1) * work.steps / T::SLICES - 1;
    work.steps = work.last_step + 1 - first_step;  // may be 0
    Ring<T::STAGES> ring;
    if (threadIdx.x < GROUP_THREADS) {
        if (threadIdx.x == 0 && work.steps > 0) {
            fetch<T>(q, k, v, shared, problem, work, 0, ring);
        }
        __syncwarp();
        cluster_sync();
    } else {
        float sums[T::HEAD / 2] = {};
        SoftmaxRows rows;
        if (work.steps > 0) {
            attend<T>(sums, rows, shared, problem, work, 0, ring, Turns<1>{0});
        }
        sync_warps(1, GROUP_THREADS);  // all warps are done with the keys
        share_part<T>(sums, rows, shared);
        cluster_sync();  // the parts of all slices are there
        add_parts<T>(out, lse, shared, problem, work, rank);
    }
    cluster_sync();  // no block leaves while another may still read its part
}
// ANCHOR_END: kernel

#define SLICED_KERNELS(SLICES)                                                                                         \
    ATTENTION_MAP_KERNEL(attention_40_##SLICES, (256, 1) __cluster_dims__(SLICES, 1, 1), Slice<40, SLICES>)            \
    ATTENTION_MAP_KERNEL(attention_64_##SLICES, (256, 1) __cluster_dims__(SLICES, 1, 1), Slice<64, SLICES>)            \
    ATTENTION_MAP_KERNEL(attention_80_##SLICES, (256, 1) __cluster_dims__(SLICES, 1, 1), Slice<80, SLICES>)            \
    ATTENTION_MAP_KERNEL(attention_128_##SLICES, (256, 1) __cluster_dims__(SLICES, 1, 1), Slice<128, SLICES>)
SLICED_KERNELS(2)
SLICED_KERNELS(4)
SLICED_KERNELS(8)
