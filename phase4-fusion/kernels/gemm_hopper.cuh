// The main loop of the last steps: a producer warp keeps a ring of tiles filled by TMA, consumer warpgroups multiply them, and
// the grid stays while its blocks take one tile of C after the other.
//
//     producer     copy 0 │ copy 1 │ copy 2 │ … waits for `empty` …      a ring of STAGES tiles of A and B
//     consumer 0      … waits for `full` … multiply 0 │ multiply 1 │ …   rows   0 … 63 of each tile of A (· ROWS / 64)
//     consumer 1      … waits for `full` … multiply 0 │ multiply 1 │ …   rows  64 … 127
//
// A barrier's phases alternate, so one bit says which of a stage's uses is meant; it turns when the ring does.
// run: gemm // trial: gemm
#pragma once
#include "gemm.cuh"
#include "wgmma.cuh"

// ANCHOR: main_loop
constexpr int ROW_BYTES = 128;       // of a tile in shared memory: what one swizzle spans
constexpr int GROUP_THREADS = 128;   // of a warpgroup
constexpr int INSTRUCTION_BYTES = 32;  // of K, per wgmma

// What follows from a shape:
//     Element              what is multiplied
//     BM, BN               rows and columns of C per block
//     CONSUMERS            warpgroups that multiply
//     STAGES               tiles of A and B in shared memory
//     OUT_BOXES            boxes of C in shared memory, per consumer: 64 rows of 128 bytes, or of 64 if BN is not a multiple of 64
//     ROWS, COLUMNS        blocks of a cluster: those of a column share B's tile, those of a row A's
//     SLICES               blocks of a cluster that share a tile of C, each for a part of K; then ROWS and COLUMNS are 1
template <class Shape>
struct Geometry : Shape {
    using Element = typename Shape::Element;
    using Out = typename Product<Element>::Out;
    using Value = typename Element::Value;
    static constexpr int BK = ROW_BYTES / sizeof(Value);               // values of i per stage
    static constexpr int CLUSTER = Shape::ROWS * Shape::COLUMNS * Shape::SLICES;
    static constexpr int THREADS = (1 + Shape::CONSUMERS) * GROUP_THREADS;
    // Of a thread, where there are several consumers: they take what the producer gives back of an SM's 65536.
    static constexpr int PRODUCER_REGISTERS = Shape::CONSUMERS == 3 ? 32 : 40;
    static constexpr int CONSUMER_REGISTERS = Shape::CONSUMERS == 3 ? 160 : 232;
    static constexpr int WM = Shape::BM / Shape::CONSUMERS;                   // rows of C per consumer
    static constexpr int PARTS = WM / 64;                              // instructions next to each other
    static constexpr int A_BYTES = Shape::BM * ROW_BYTES;
    static constexpr int B_BYTES = Shape::BN * ROW_BYTES;
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int OUT_ROW = Shape::BN % 64 == 0 ? ROW_BYTES : ROW_BYTES / 2;  // bytes of a row of a box of C
    static constexpr int OUT_COLUMNS = OUT_ROW / sizeof(typename Out::Value);
    static constexpr int OUT_BYTES = 64 * OUT_ROW;                     // of a box of C, 64 rows
    static constexpr int OUT_PLACE = Shape::STAGES * STAGE_BYTES;
    static constexpr int SCALES = OUT_PLACE + Shape::CONSUMERS * Shape::OUT_BOXES * OUT_BYTES;
    static constexpr int SCALE_BYTES = SCALED<Element> ? Shape::BM * 4 : 0;  // of a stage: a scale per row of A
    static constexpr int BARRIERS = SCALES + Shape::STAGES * SCALE_BYTES;
    static constexpr int SHARED = BARRIERS + 2 * Shape::STAGES * 8;
    static constexpr int BOXES = PARTS * Shape::BN / OUT_COLUMNS;      // of a consumer's part of C
    static_assert(WM % 64 == 0, "a consumer's rows must be whole instructions");
    static_assert(Shape::BN % OUT_COLUMNS == 0, "a tile must be whole boxes of C");
    static_assert(BOXES % Shape::OUT_BOXES == 0, "a consumer must fill all boxes in shared memory each time");
    static_assert(Shape::SLICES == 1 || Shape::ROWS * Shape::COLUMNS == 1, "a cluster shares tiles or cuts K, not both");
    static_assert(Shape::BM * Shape::BN * 4 <= OUT_PLACE || Shape::SLICES == 1, "the ring must hold a slice's sums");
    static_assert(SHARED <= 227 * 1024, "a block has 227 KiB of shared memory at most");
};

// A thread's sums of a tile.
template <class Shape>
using Sums = typename Product<typename Shape::Element>::Sum[Geometry<Shape>::PARTS][Shape::BN / 2];

// A stage of the ring and the parity of its present use.
template <int STAGES>
struct Ring {
    int stage = 0;
    unsigned parity = 0;
    __device__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Which tile of C a block computes. Clusters take their tiles in bands of BAND rows of them, down the columns of a band: those
// that run together share rows and columns in L2.
template <class Shape>
struct Tiles {
    int rows, columns;  // of clusters' tiles
    static constexpr int BAND = 16 / Shape::ROWS;
    __device__ Tiles(int m, int n)
        : rows((m + Shape::BM * Shape::ROWS - 1) / (Shape::BM * Shape::ROWS)),
          columns((n + Shape::BN * Shape::COLUMNS - 1) / (Shape::BN * Shape::COLUMNS)) {}
    __device__ int count() const { return rows * columns; }
    __device__ int first() const { return blockIdx.x / Geometry<Shape>::CLUSTER; }
    __device__ int step() const { return gridDim.x / Geometry<Shape>::CLUSTER; }
    // The first row and column of C.
    __device__ int2 operator()(int tile, int rank) const {
        int band = tile / (BAND * columns), above = band * BAND, height = min(BAND, rows - above);
        int at = tile - band * BAND * columns;
        return make_int2(((above + at % height) * Shape::ROWS + rank % Shape::ROWS) * Shape::BM,
                         (at / height * Shape::COLUMNS + rank / Shape::ROWS % Shape::COLUMNS) * Shape::BN);
    }
};

// The ranks in a cluster of the blocks that share a row, or a column, of tiles with this one; a bit each.
template <class Shape>
__device__ inline unsigned row_of(int rank) {
    if (Shape::SLICES > 1) {
        return 1u << rank;
    }
    unsigned first = 0;
#pragma unroll
    for (int column = 0; column < Shape::COLUMNS; column++) {
        first |= 1u << column * Shape::ROWS;
    }
    return first << rank % Shape::ROWS;
}

template <class Shape>
__device__ inline unsigned column_of(int rank) {
    if (Shape::SLICES > 1) {
        return 1u << rank;
    }
    return ((1u << Shape::ROWS) - 1) << rank / Shape::ROWS * Shape::ROWS;
}

// Where a block's tiles of A come from: a matrix [M, K]. A convolution has another source (conv_hopper.cuh).
struct Rows {
    // What copies of a tile have to know of its first row.
    __device__ int start(int first) const { return first; }
    // The columns of a step.
    template <bool MULTICAST>
    __device__ void copy(const TensorMap &a, unsigned blocks, unsigned to, int first, int step, int columns, unsigned barrier) const {
        copy_box_to<MULTICAST>(blocks, to, a, step * columns, first, barrier);
    }
};

template <class Shape, Layout LAYOUT, class Source>
__device__ inline void produce(const TensorMap &a, const TensorMap &b, const Source &source, unsigned shared, Tiles<Shape> tiles,
                               int first_step, int last_step) {
    using G = Geometry<Shape>;
    unsigned full = shared + G::BARRIERS, empty = full + 8 * Shape::STAGES;
    int rank = G::CLUSTER > 1 ? cluster_rank() : 0, row = rank % Shape::ROWS, column = rank / Shape::ROWS % Shape::COLUMNS;
    Ring<Shape::STAGES> ring;
    for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
        int2 at = tiles(tile, rank);
        // Each block of a row of the cluster fetches a part of A's tile for all of them, and so for B.
        constexpr int A_PART = Shape::BM / Shape::COLUMNS, B_PART = Shape::BN / Shape::ROWS;
        auto start = source.start(at.x + column * A_PART);
#pragma unroll 1  // one warp has this to do, and few registers to do it with
        for (int step = first_step; step < last_step; step++, ring.next()) {
            unsigned a_tile = shared + ring.stage * G::STAGE_BYTES, b_tile = a_tile + G::A_BYTES;
            unsigned arrived = full + 8 * ring.stage;
            barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
            barrier_expect(arrived, G::STAGE_BYTES + G::SCALE_BYTES);
            source.template copy<(Shape::COLUMNS > 1)>(a, row_of<Shape>(rank), a_tile + column * A_PART * ROW_BYTES, start, step, G::BK,
                                                       arrived);
            if constexpr (SCALED<typename G::Element>) {
                unsigned scales = shared + G::SCALES + ring.stage * G::SCALE_BYTES + column * A_PART * 4;
                copy_box_to<(Shape::COLUMNS > 1)>(row_of<Shape>(rank), scales, source.of_a, start, step, arrived);
            }
            if (LAYOUT == TRANSPOSED) {
                copy_box_to<(Shape::ROWS > 1)>(column_of<Shape>(rank), b_tile + row * B_PART * ROW_BYTES, b, step * G::BK,
                                               at.y + row * B_PART, arrived);
            } else {  // boxes of 128 bytes of a row, one below the other
#pragma unroll
                for (int i = 0; i < B_PART; i += G::BK) {
                    int x = row * B_PART + i;
                    copy_box_to<(Shape::ROWS > 1)>(column_of<Shape>(rank), b_tile + x * ROW_BYTES, b, at.y + x, step * G::BK, arrived);
                }
            }
        }
    }
}

// The product of one stage: all instructions of a consumer, or those of some of its parts.
template <class Shape, Layout LAYOUT, class Sum, int PARTS>
__device__ inline void multiply(Sum (&sums)[PARTS][Shape::BN / 2], unsigned a_tile, unsigned b_tile, bool add) {
    using G = Geometry<Shape>;
    // Groups of 8 rows, 1024 bytes each, follow one another. Row by row, B's columns beyond the first box lie a box further on.
    unsigned long long b = LAYOUT == TRANSPOSED ? descriptor(b_tile, 16, 1024) : descriptor(b_tile, G::BK * ROW_BYTES, 1024);
    constexpr int B_STEP = LAYOUT == TRANSPOSED ? INSTRUCTION_BYTES : G::BK / 4 * ROW_BYTES;
#pragma unroll
    for (int k = 0; k < ROW_BYTES / INSTRUCTION_BYTES; k++) {
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            unsigned long long a = descriptor(a_tile + part * 64 * ROW_BYTES, 16, 1024);
            wgmma<LAYOUT == ROW_MAJOR>(typename G::Element(), sums[part], a + (k * INSTRUCTION_BYTES >> 4), b + (k * B_STEP >> 4), add || k > 0);
        }
    }
}

// A box of C, 64 rows of ROW bytes, into shared memory at `place`: the sums of a warp's 16 rows from `sums` on. 16 bytes at a time
// are swizzled, as the tensor map says: those of 1024 bytes, or of 512, change places.
template <class Out, int ROW = ROW_BYTES, class Sum>
__device__ inline void write_box(unsigned place, const Sum *sums) {
    int warp = threadIdx.x % GROUP_THREADS / 32, lane = threadIdx.x % 32;
    if constexpr (sizeof(typename Out::Value) == 2) {
        int row = warp * 16 + lane % 16;  // lane l tells where row l % 8 of matrix l / 8 goes
#pragma unroll
        for (int i = 0; i < ROW / 32; i++) {  // 16 columns, 8 sums per thread
            unsigned to = place + row * ROW + ((i * 2 + lane / 16) ^ row * ROW / ROW_BYTES % (ROW / 16)) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                         "r"(Out::pack(sums[i * 8], sums[i * 8 + 1])), "r"(Out::pack(sums[i * 8 + 2], sums[i * 8 + 3])),
                         "r"(Out::pack(sums[i * 8 + 4], sums[i * 8 + 5])), "r"(Out::pack(sums[i * 8 + 6], sums[i * 8 + 7]))
                         : "memory");
        }
    } else {
#pragma unroll
        for (int i = 0; i < ROW / 16; i++) {  // two sums per thread: four lanes for 8 columns of a row
            int row = warp * 16 + lane / 4 + i % 2 * 8, at = i / 2 * 32 + lane % 4 * 8;
            store_pair(place + row * ROW + ((at / 16 ^ row * ROW / ROW_BYTES % (ROW / 16)) * 16 | at % 16), sums[i * 2], sums[i * 2 + 1]);
        }
    }
}

// The sums of a consumer to C, by way of shared memory. TMA stores them while the next tile is multiplied.
template <class Shape, class Sum>
__device__ inline void store(const TensorMap &c, const Epilogue &epilogue, Sum (&sums)[Geometry<Shape>::PARTS][Shape::BN / 2],
                             unsigned shared, int consumer, int first_row, int first_column, int m, int n) {
    using G = Geometry<Shape>;
    using Out = typename G::Out;
    constexpr int WIDE = Shape::BN / G::OUT_COLUMNS;  // boxes next to each other
    int thread = threadIdx.x % GROUP_THREADS, warp = thread / 32, lane = thread % 32;
    unsigned places = shared + G::OUT_PLACE + consumer * Shape::OUT_BOXES * G::OUT_BYTES;
#pragma unroll
    for (int first = 0; first < G::BOXES; first += Shape::OUT_BOXES) {
        if (thread == 0) {
            stores_read<0>();
        }
        sync_warps(1 + consumer, GROUP_THREADS);  // the places are free
#pragma unroll
        for (int box = first; box < first + Shape::OUT_BOXES; box++) {
            if (box % WIDE == 0) {
                int row = first_row + box / WIDE * 64 + warp * 16 + lane / 4, column = first_column + lane % 4 * 2;
                auto place = [&](int i) { return make_int2(row + i / 2 % 2 * 8, column + i / 4 * 8); };
                finish<Out, true>(epilogue, sums[box / WIDE], place, m, n);
            }
            write_box<Out, G::OUT_ROW>(places + (box - first) * G::OUT_BYTES, &sums[box / WIDE][box % WIDE * G::OUT_COLUMNS / 2]);
        }
        fence_async_proxy();
        sync_warps(1 + consumer, GROUP_THREADS);  // the boxes are complete
        if (thread == 0) {
#pragma unroll
            for (int box = first; box < first + Shape::OUT_BOXES; box++) {
                store_box(c, first_column + box % WIDE * G::OUT_COLUMNS, first_row + box / WIDE * 64, places + (box - first) * G::OUT_BYTES);
            }
            stores_commit();
        }
    }
}

// Where a slice keeps a sum of its tile, in bytes. Rows are turned by 32 bytes, so that a warp's stores meet no bank twice.
template <class Shape>
__device__ inline int place_of_sum(int row, int column) {
    return row * Shape::BN * 4 + ((column * 4) ^ row % 4 * 32);
}

// Puts a slice's sums of a tile of C into shared memory, where the ring was.
template <class Shape, class Sum>
__device__ inline void share_sums(const Sum (&sums)[Geometry<Shape>::PARTS][Shape::BN / 2], unsigned shared, int consumer) {
    using G = Geometry<Shape>;
    int thread = threadIdx.x % GROUP_THREADS, warp = thread / 32, lane = thread % 32;
#pragma unroll
    for (int part = 0; part < G::PARTS; part++) {
#pragma unroll
        for (int i = 0; i < Shape::BN / 2; i += 2) {
            int row = consumer * G::WM + part * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2;
            store_pair(shared + place_of_sum<Shape>(row, column), sums[part][i], sums[part][i + 1]);
        }
    }
}

// ANCHOR: slices
// Adds up the slices of a tile of C: each block finishes a part of the rows with the sums of all. The consumers come here, which have
// the registers for many reads under way: each takes a trip to another SM.
template <class Shape, class Value>
__device__ inline void add_slices(Value *c, const Epilogue &epilogue, unsigned shared, int rank, int first_row, int first_column, int m,
                                  int n) {
    using Sum = typename Product<typename Shape::Element>::Sum;
    using Out = typename Geometry<Shape>::Out;
    constexpr int THREADS = Shape::CONSUMERS * GROUP_THREADS, ROWS = (Shape::BM + Shape::SLICES - 1) / Shape::SLICES;
    constexpr int EACH = THREADS * 4;                                                 // four sums of a row per thread
    constexpr int TOGETHER = Shape::SLICES < 8 ? 8 / Shape::SLICES : 1;               // of them, so that 8 reads are under way
    int first = (threadIdx.x - GROUP_THREADS) * 4;
    int count = min(ROWS, Shape::BM - rank * ROWS) * Shape::BN;  // the last of six slices has fewer rows
#pragma unroll 1
    for (int start = 0; start < count; start += EACH * TOGETHER) {
        Sum parts[TOGETHER][Shape::SLICES][4];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            int at = min(start + i * EACH + first, count - 4);
            unsigned place = shared + place_of_sum<Shape>(rank * ROWS + at / Shape::BN, at % Shape::BN);
#pragma unroll
            for (int slice = 0; slice < Shape::SLICES; slice++) {
                read_four(parts[i][slice], shared_address_in(place, slice));
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            int at = start + i * EACH + first, row = first_row + rank * ROWS + at / Shape::BN, column = first_column + at % Shape::BN;
            Sum(&sums)[4] = parts[i][0];
#pragma unroll
            for (int slice = 1; slice < Shape::SLICES; slice++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    sums[j] += parts[i][slice][j];
                }
            }
            if (at < count && row < m && column < n) {
                finish<Out, true>(epilogue, sums, [&](int j) { return make_int2(row, column + j / 2 * 2); }, m, n);
                Value *to = c + (size_t)row * n + column;
                Out::store_pair(to, sums[0], sums[1]);
                Out::store_pair(to + 2, sums[2], sums[3]);
            }
        }
    }
}
// ANCHOR_END: slices

// How the sums of a tile are made; `at()` is its first row and column. Blocks with scales have another way (gemm_scaled.cuh).
template <class Source>
struct Steps {
    template <class Shape, Layout LAYOUT, class At, class Release>
    static __device__ void add(Sums<Shape> &sums, const Source &, const At &, unsigned shared, int consumer, Ring<Shape::STAGES> &ring,
                               int first_step, int last_step, const Release &release) {
        using G = Geometry<Shape>;
        int before = 0;
        for (int step = first_step; step < last_step; step++, ring.next()) {
            unsigned a_tile = shared + ring.stage * G::STAGE_BYTES, b_tile = a_tile + G::A_BYTES;
            barrier_wait(shared + G::BARRIERS + 8 * ring.stage, ring.parity);
            wgmma_fence();
            multiply<Shape, LAYOUT>(sums, a_tile + consumer * G::WM * ROW_BYTES, b_tile, step > first_step);
            wgmma_commit();
            if (step > first_step) {
                wgmma_wait<1>();  // the products of the step before are complete: its stage can be filled again
                release(before);
            }
            before = ring.stage;
        }
        wgmma_wait<0>();
        if (Shape::SLICES == 1) {
            release(before);
        }
    }
};

template <class Shape, Layout LAYOUT, class Place, class Source>
__device__ inline void consume(const Place &c, const Epilogue &epilogue, const Source &source, unsigned shared, Tiles<Shape> tiles,
                               int first_step, int last_step, int m, int n) {
    using G = Geometry<Shape>;
    int consumer = threadIdx.x / GROUP_THREADS - 1, lane = threadIdx.x % 32;
    int rank = G::CLUSTER > 1 ? cluster_rank() : 0;
    unsigned empty = shared + G::BARRIERS + 8 * Shape::STAGES;
    // A stage is free once every warp that read it says so, to every block that fills a part of it.
    bool tells = lane < G::CLUSTER && (row_of<Shape>(rank) | column_of<Shape>(rank)) >> lane & 1;
    auto release = [&](int stage) {
        if (tells) {
            G::CLUSTER > 1 ? barrier_arrive_at(empty + 8 * stage, lane) : barrier_arrive(empty + 8 * stage);
        }
    };
    Ring<Shape::STAGES> ring;
    for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
        Sums<Shape> sums;
        auto at = [&] { return tiles(tile, rank); };
        Steps<Source>::template add<Shape, LAYOUT>(sums, source, at, shared, consumer, ring, first_step, last_step, release);
        if constexpr (Shape::SLICES > 1) {
            sync_warps(1, Shape::CONSUMERS * GROUP_THREADS);  // no warp reads the ring any more
            share_sums<Shape>(sums, shared, consumer);
        } else {
            int2 first = at();
            store<Shape>(c, epilogue, sums, shared, consumer, first.x + consumer * G::WM, first.y, m, n);
        }
    }
    if (Shape::SLICES == 1 && threadIdx.x % GROUP_THREADS == 0) {
        stores_read<0>();  // shared memory lasts as long as the block
    }
}

// C = A·B with the epilogue. `c` is a tensor map, or the memory itself if the blocks of a cluster share a tile.
template <class Shape, Layout LAYOUT, class Place, class Source = Rows>
__device__ inline void gemm(const TensorMap &a, const TensorMap &b, const Place &c, int m, int n, int k, const Epilogue &epilogue,
                            const Source &source = Source()) {
    using G = Geometry<Shape>;
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory), full = shared + G::BARRIERS, empty = full + 8 * Shape::STAGES;
    launch_dependents();
    if (threadIdx.x == 0) {
        prefetch_map(a);
        prefetch_map(b);
        if constexpr (Shape::SLICES == 1) {
            prefetch_map(c);
        }
        for (int stage = 0; stage < Shape::STAGES; stage++) {
            barrier_init(full + 8 * stage, 1);
            barrier_init(empty + 8 * stage, Shape::CONSUMERS * 4 * (Shape::ROWS + Shape::COLUMNS - 1));  // a warp each
        }
        fence_barrier_init();
    }
    G::CLUSTER > 1 ? cluster_sync() : __syncthreads();
    wait_for_launches_before();

    Tiles<Shape> tiles(m, n);
    int steps = (k + G::BK - 1) / G::BK, slice = Shape::SLICES > 1 ? cluster_rank() : 0;
    int first_step = slice * steps / Shape::SLICES, last_step = (slice + 1) * steps / Shape::SLICES;
    if (threadIdx.x < GROUP_THREADS) {
        if (Shape::CONSUMERS > 1) {
            give_registers_back<G::PRODUCER_REGISTERS>();
        }
        if (threadIdx.x == 0) {
            produce<Shape, LAYOUT>(a, b, source, shared, tiles, first_step, last_step);
        }
        __syncwarp();
        if (Shape::SLICES > 1) {
            cluster_sync();
        }
    } else {
        if (Shape::CONSUMERS > 1) {
            take_registers<G::CONSUMER_REGISTERS>();
        }
        consume<Shape, LAYOUT>(c, epilogue, source, shared, tiles, first_step, last_step, m, n);
        if constexpr (Shape::SLICES > 1) {
            cluster_sync();  // the sums of all slices are there
            int2 at = tiles(tiles.first(), slice);
            add_slices<Shape>(c, epilogue, shared, slice, at.x, at.y, m, n);
        }
    }
    if (G::CLUSTER > 1) {
        cluster_sync();  // no block leaves while another may still arrive at its barriers, or read its sums
    }
}
// ANCHOR_END: main_loop
