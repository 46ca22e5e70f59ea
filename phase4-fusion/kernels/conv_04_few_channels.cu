// A convolution of few channels, such as a network's first: a row of a window is S · C values that lie next to each other, so a tap is
// no step along K, but a part of one. TMA brings the rows of an image under a tile of the output; each thread picks its fragments of
// A out of them, and the tensor cores take A from registers. The filters stay in shared memory, K × R × (S · C), as words of 4 bytes.
//
//     image row    … 3 channels │ 3 channels │ 3 …      words of 4 bytes: two f16, or one f32
//     pixel x      ├─ 11 words, 7 · 3 values ─┤
//     pixel x + 1            ├─ 11 words ─┤              two pixels, 6 values, 3 words further on: no bank twice
//
// A step along K takes 8 words, a lane two of them, for two pixels. Where a window begins or ends within a word, that word has a
// value of a neighbour too: it is cut off, for the filter's zero there does not help against an infinity.
//
// Limited by the bytes of the output.
// nvrtc: --gpu-architecture=compute_90a // run: conv
#include "gemm_hopper.cuh"

// Of a layer. As the host has it: `src/conv/few_channels.rs`.
struct Layer {
    int images, outputs_y, outputs_x, out_channels;  // N, P, Q, K
    int stride, padding, filter_y;                   // filter_y: R
    int row_values;                                  // S · C
    int channels;                                    // C
    int first_value, lead;                           // of a row: where the first copy starts, and bytes from there to the first window
    int pitch;                                       // bytes of an image row in shared memory
    int stage_bytes;                                 // of all rows of a tile
};

// ANCHOR: tile
constexpr int CONSUMERS = 2;
constexpr int TILE_X = 16, TILE_Y = 4 * CONSUMERS;  // pixels of the output: a row of 16 per warp
constexpr int CHANNELS = 64;                        // of the output per block
constexpr int STAGES = 4;
constexpr int THREADS = CONSUMERS * GROUP_THREADS;
constexpr int WORD = 4;                             // bytes
constexpr int STEP_WORDS = INSTRUCTION_BYTES / WORD;
// ANCHOR_END: tile

// Shared memory: the filters in boxes of 64 rows of 128 bytes, the boxes of the output, the barriers, the
// table of words, the stages.
template <class Element, int STEPS>
struct Places {
    static constexpr int BOXES = (STEPS * INSTRUCTION_BYTES + ROW_BYTES - 1) / ROW_BYTES, BOX_BYTES = CHANNELS * ROW_BYTES;
    static constexpr int OUT_COLUMNS = ROW_BYTES / sizeof(typename Element::Value), OUT_BOXES = CHANNELS / OUT_COLUMNS;
    static constexpr int OUT = BOXES * BOX_BYTES, BARRIERS = OUT + CONSUMERS * OUT_BOXES * BOX_BYTES;
    static constexpr int TABLE = BARRIERS + 2 * STAGES * 8, WORDS = STEPS * STEP_WORDS;
    static constexpr int RING = (TABLE + WORDS * (int)sizeof(uint2) + 127) / 128 * 128;
};

// Which word of a window is the `at`th along K: its row, the word in that row, and the value that it begins with, of S · C.
template <class Value>
struct Word {
    static constexpr int EACH = WORD / sizeof(Value);  // values
    int row, word, first;
    bool row_inside;
    __device__ Word(const Layer &layer, int at) {
        int before = layer.lead % WORD / (int)sizeof(Value), words = (before + layer.row_values + EACH - 1) / EACH;
        row = at / words;
        word = at - row * words;
        first = word * EACH - before;
        row_inside = row < layer.filter_y;
    }
    __device__ bool inside(const Layer &layer, int value) const {
        return row_inside && first + value >= 0 && first + value < layer.row_values;
    }
};

// The filters of this block's channels [64, R, S · C] into shared memory, swizzled as wgmma wants them, with zeros up to whole words
// and steps.
template <class Element, int STEPS>
__device__ inline void load_filters(const typename Element::Value *w, unsigned shared, const Layer &layer, int first_channel) {
    using Value = typename Element::Value;
    constexpr int EACH = Word<Value>::EACH, WORDS = Places<Element, STEPS>::WORDS;
#pragma unroll 4
    for (int i = threadIdx.x; i < CHANNELS * WORDS; i += THREADS) {
        int channel = i / WORDS, at = i % WORDS;
        Word<Value> word(layer, at);
        const Value *from = w + ((size_t)(first_channel + channel) * layer.filter_y + word.row) * layer.row_values;
        Value values[EACH] = {};
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            if (word.inside(layer, j) && first_channel + channel < layer.out_channels) {
                values[j] = from[word.first + j];
            }
        }
        int box = at * WORD / ROW_BYTES, byte = at * WORD % ROW_BYTES;
        unsigned to = shared + (box * CHANNELS + channel) * ROW_BYTES + ((byte / 16 ^ channel % 8) * 16 | byte % 16);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(*reinterpret_cast<unsigned *>(values)) : "memory");
    }
}

// What a lane has to know of each word along K: where it lies from the window's first one, and which of its bits count.
template <class Element, int STEPS>
__device__ inline void make_table(unsigned shared, const Layer &layer) {
    using P = Places<Element, STEPS>;
    using Value = typename Element::Value;
    constexpr int BITS = 8 * sizeof(Value);
    for (int at = threadIdx.x; at < P::WORDS; at += THREADS) {
        Word<Value> word(layer, at);
        unsigned offset = word.row_inside ? word.row * layer.pitch + word.word * WORD : 0, bits = 0;
#pragma unroll
        for (int j = 0; j < Word<Value>::EACH; j++) {
            bits |= word.inside(layer, j) ? ~0u >> (32 - BITS) << j * BITS : 0;
        }
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(shared + P::TABLE + at * (int)sizeof(uint2)), "r"(offset), "r"(bits) : "memory");
    }
}

__device__ inline uint2 read_words(unsigned from) {
    uint2 words;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(from) : "memory");
    return words;
}

__device__ inline unsigned read_word(unsigned from) {
    unsigned word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}

// Has the compiler complete these values here: before the fence that makes registers visible to the tensor cores.
__device__ inline void in_registers(unsigned (&values)[4]) {
    asm volatile("" : "+r"(values[0]), "+r"(values[1]), "+r"(values[2]), "+r"(values[3])::"memory");
}

// Tiles of the output: which one is the `tile`th, and where.
struct Walk {
    int wide, high, count;
    __device__ Walk(const Layer &layer)
        : wide((layer.outputs_x + TILE_X - 1) / TILE_X), high((layer.outputs_y + TILE_Y - 1) / TILE_Y), count(wide * high * layer.images) {}
    __device__ int3 operator()(int tile) const {
        int row = tile / wide, image = row / high;
        return make_int3((tile - row * wide) * TILE_X, (row - image * high) * TILE_Y, image);
    }
};

// The copies of a block's tiles, a stage each: one thread starts them.
struct Copies {
    const TensorMap &x;
    const Layer &layer;
    Walk walk;
    unsigned stages, full;

    __device__ void start(int tile, int stage) const {
        if (tile < walk.count) {
            int3 at = walk(tile);
            barrier_expect(full + 8 * stage, ((TILE_Y - 1) * layer.stride + layer.filter_y) * layer.pitch);
            copy_rows(stages + stage * layer.stage_bytes, x, at.x * layer.stride * layer.channels + layer.first_value,
                      at.y * layer.stride - layer.padding, at.z, full + 8 * stage);
        }
    }
};

// ANCHOR: consume
template <class Element, int STEPS>
__device__ inline void consume(const Copies &copies, const TensorMap &y, const Epilogue &epilogue, unsigned shared, const Layer &layer,
                               int first, int step, int first_channel) {
    using P = Places<Element, STEPS>;
    using Out = typename Product<Element>::Out;
    int thread = threadIdx.x % GROUP_THREADS, warp = thread / 32, lane = thread % 32, consumer = threadIdx.x / GROUP_THREADS;
    int pixel = layer.stride * layer.channels * (int)sizeof(typename Element::Value);  // bytes from a pixel's window to the next
    int place = (consumer * 4 + warp) * layer.stride * layer.pitch + lane / 4 * pixel + layer.lead / WORD * WORD;
    unsigned empty = copies.full + 8 * STAGES, boxes = shared + P::OUT + consumer * P::OUT_BOXES * P::BOX_BYTES;
    Ring<STAGES> ring;
    for (int tile = first; tile < copies.walk.count; tile += step, ring.next()) {
        unsigned fragments[STEPS][4];
        barrier_wait(copies.full + 8 * ring.stage, ring.parity);
        unsigned windows = copies.stages + ring.stage * layer.stage_bytes + place;
#pragma unroll
        for (int i = 0; i < STEPS * 2; i++) {
            uint2 word = read_words(shared + P::TABLE + (i * 4 + lane % 4) * (int)sizeof(uint2));
            unsigned here = windows + word.x;
            fragments[i / 2][i % 2 * 2] = read_word(here) & word.y;
            fragments[i / 2][i % 2 * 2 + 1] = read_word(here + 8 * pixel) & word.y;
        }
        __syncwarp();
        if (lane == 0) {
            barrier_arrive(empty + 8 * ring.stage);
        }
        float sums[CHANNELS / 2];
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            in_registers(fragments[k]);
        }
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            constexpr int STEPS_OF_BOX = ROW_BYTES / INSTRUCTION_BYTES;
            unsigned filters = shared + k / STEPS_OF_BOX * P::BOX_BYTES;
            unsigned long long b = descriptor(filters, 16, 1024) + (k % STEPS_OF_BOX * INSTRUCTION_BYTES >> 4);
            wgmma_from_registers(Element(), sums, fragments[k], b, k > 0);
        }
        wgmma_commit();
        wgmma_wait<0>();

        int3 at = copies.walk(tile);
        auto pixel_of = [&](int i) {
            int x = min(at.x + lane / 4 + i / 2 % 2 * 8, layer.outputs_x - 1), y = min(at.y + consumer * 4 + warp, layer.outputs_y - 1);
            return make_int2((at.z * layer.outputs_y + y) * layer.outputs_x + x, first_channel + lane % 4 * 2 + i / 4 * 8);
        };
        finish<Out, true>(epilogue, sums, pixel_of, layer.images * layer.outputs_y * layer.outputs_x, layer.out_channels);
        if (thread == 0) {
            stores_read<0>();
        }
        sync_warps(1 + consumer, GROUP_THREADS);  // the boxes are free
#pragma unroll
        for (int box = 0; box < P::OUT_BOXES; box++) {
            write_box<Out>(boxes + box * P::BOX_BYTES, &sums[box * P::OUT_COLUMNS / 2]);
        }
        fence_async_proxy();
        sync_warps(1 + consumer, GROUP_THREADS);  // the boxes are complete
        if (thread == 0) {
#pragma unroll
            for (int box = 0; box < P::OUT_BOXES; box++) {
                store_pixels(y, first_channel + box * P::OUT_COLUMNS, at.x, at.y + consumer * 4, at.z, boxes + box * P::BOX_BYTES);
            }
            stores_commit();
        }
        if (threadIdx.x == 0) {
            barrier_wait(empty + 8 * ring.stage, ring.parity);  // every warp has its fragments
            copies.start(tile + STAGES * step, ring.stage);
        }
        __syncwarp();
    }
    if (thread == 0) {
        stores_read<0>();  // shared memory lasts as long as the block
    }
}
// ANCHOR_END: consume

// `x` has the rows of all images as [N, H, W · C], `w` is [K, R, S · C], `y` [N, P, Q, K]. A block keeps its channels, blockIdx.x
// modulo their tiles, and takes one tile of pixels after the other.
template <class Element, int STEPS>
__device__ inline void convolve(const TensorMap &x, const typename Element::Value *w, const TensorMap &y, const Epilogue &epilogue,
                                const Layer &layer) {
    using P = Places<Element, STEPS>;
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory), full = shared + P::BARRIERS, empty = full + 8 * STAGES;
    launch_dependents();
    if (threadIdx.x == 0) {
        prefetch_map(x);
        prefetch_map(y);
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(full + 8 * stage, 1);
            barrier_init(empty + 8 * stage, CONSUMERS * 4);  // a warp each
        }
        fence_barrier_init();
    }
    int parts = (layer.out_channels + CHANNELS - 1) / CHANNELS;
    int first_channel = blockIdx.x % parts * CHANNELS, first = blockIdx.x / parts, step = gridDim.x / parts;
    make_table<Element, STEPS>(shared, layer);
    wait_for_launches_before();
    Copies copies{x, layer, Walk(layer), shared + P::RING, full};
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            copies.start(first + stage * step, stage);
        }
    }
    load_filters<Element, STEPS>(w, shared, layer, first_channel);
    fence_async_proxy();
    __syncthreads();
    consume<Element, STEPS>(copies, y, epilogue, shared, layer, first, step, first_channel);
}

// A kernel, the steps along K that it has, and the bytes of shared memory that it needs beside its stages.
#define FEW_CHANNELS(name, ELEMENT, STEPS, BLOCKS)                                                                     \
    constexpr int name##_steps = STEPS, name##_shared = Places<ELEMENT, STEPS>::RING;                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                      \
        name(const __grid_constant__ TensorMap x, const ELEMENT::Value *w, const __grid_constant__ TensorMap y,        \
             const float *scale, const float *shift, const Product<ELEMENT>::Out::Value *residual, float alpha,        \
             int activation, Layer layer) {                                                                            \
        Epilogue epilogue{scale, shift, residual, alpha, activation};                                                  \
        convolve<ELEMENT, STEPS>(x, w, y, epilogue, layer);                                                            \
    }

// 3 × 3 of 8 channels, and 7 × 7 of 3.
FEW_CHANNELS(conv_f16_5, F16, 5, 2)
FEW_CHANNELS(conv_f16_10, F16, 10, 2)
FEW_CHANNELS(conv_tf32_9, TF32, 9, 1)
FEW_CHANNELS(conv_tf32_19, TF32, 19, 1)
