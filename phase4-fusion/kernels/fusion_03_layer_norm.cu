// LayerNorm and the linear layer after it in one launch: the product takes x as it is, and its epilogue does the norm.
//
//     LayerNorm(x)·Wᵀ + b  =  r · (x·W'ᵀ − μ · c) + b'        W' = W · γ, per column      c = sums of the rows of W'
//                                                             b' = b + W·β                 μ, r = mean and 1 / deviation of a row of x
//
//     separate   norm: reads x, writes x̂        product: reads x̂ and W, writes y
//     here                                       product: reads x and W', writes y; the consumers see all of x's rows on the way
//
// Sums of distances from a row's first value give μ and r: those of squares alone would subtract two large numbers where |μ| is large.
// So does x·W'ᵀ − μ · c, and that cannot be helped: what the tensor cores lose of x counts |μ| · r times as much as what they lose of x̂.
// In f16 they lose nothing of x; of f32 they cut off 13 bits.
//
// Limited as the product is. Each block adds up the rows of its tile, so a row is added up once for each 128 or 160 columns of y.
// nvrtc: --gpu-architecture=compute_90a // run: test fusion // trial: fusion
#include "gemm_hopper.cuh"
#include "shapes.cuh"
#include "shapes_160.cuh"

// ANCHOR: moments
__device__ inline uint4 read_16_bytes(unsigned from) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "r"(from) : "memory");
    return words;
}

// What tensor cores multiply of the values in a word.
__device__ inline float2 values_of(F16, unsigned word) { return make_float2(F16::unpack(word & 0xffff), F16::unpack(word >> 16)); }
__device__ inline float2 values_of(TF32, unsigned word) { return make_float2(__uint_as_float(word & 0xffffe000), 0.0f); }

// Half of a row of x, added up by one of the two lanes that share it: lanes l and l + 16 have row l of a warp's 16.
template <class Element>
struct Moments {
    static constexpr int EACH = 16 / sizeof(typename Element::Value), IN_WORD = EACH / 4;  // values of 16 bytes, and of 4
    float pivot, sum = 0.0f, squares = 0.0f;  // of the distances from the pivot, the row's first value

    // A step's columns from `column` on, of the tile at `rows`: 64 bytes of 128. Pieces of 16 bytes are swizzled, so those that eight
    // lanes read together lie in different banks.
    __device__ void add(unsigned rows, int column, int k) {
        int row = threadIdx.x % GROUP_THREADS / 32 * 16 + threadIdx.x % 16, half = threadIdx.x % 32 / 16;
        unsigned from = rows + row * ROW_BYTES;
        if (column == 0) {
            pivot = values_of(Element(), read_16_bytes(from + row % 8 * 16).x).x;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int piece = half * 4 + i;
            if (column + piece * EACH < k) {  // beyond are zeros, which are no values
                uint4 words = read_16_bytes(from + (piece ^ row % 8) * 16);
                add(words.x), add(words.y), add(words.z), add(words.w);
            }
        }
    }
    __device__ void add(unsigned word) {
        float2 values = values_of(Element(), word);
        values.x -= pivot;
        sum += values.x;
        squares = fmaf(values.x, values.x, squares);
        if (IN_WORD == 2) {
            values.y -= pivot;
            sum += values.y;
            squares = fmaf(values.y, values.y, squares);
        }
    }
    // Mean and reciprocal deviation of the row, in both of its lanes.
    __device__ float2 mean_and_scale(int k, float eps) {
        sum += __shfl_xor_sync(~0u, sum, 16);
        squares += __shfl_xor_sync(~0u, squares, 16);
        float away = sum / k, variance = fmaxf(squares / k - away * away, 0.0f);
        return make_float2(pivot + away, 1.0f / sqrtf(variance + eps));
    }
};
// ANCHOR_END: moments

// ANCHOR: normalise
// r · (sums − μ · c), for the sums of 64 rows of a consumer.
template <int COUNT>
__device__ inline void normalise(float (&sums)[COUNT], float2 of_row, const float *weight_sums, int first_column, int n) {
    int lane = threadIdx.x % 32;
    float mean[2], scale[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {  // a thread has sums of two rows, eight apart
        mean[i] = __shfl_sync(~0u, of_row.x, lane / 4 + i * 8);
        scale[i] = __shfl_sync(~0u, of_row.y, lane / 4 + i * 8);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        float of_column = weight_sums[min(first_column + lane % 4 * 2 + i / 4 * 8 + i % 2, n - 1)];
        sums[i] = scale[i / 2 % 2] * fmaf(-mean[i / 2 % 2], of_column, sums[i]);
    }
}
// ANCHOR_END: normalise

// `consume` of gemm_hopper.cuh, without clusters and slices, and with a look at each tile of x.
template <class Shape>
__device__ inline void consume_and_normalise(const TensorMap &y, const Epilogue &epilogue, const float *weight_sums, float eps,
                                             unsigned shared, Tiles<Shape> tiles, int m, int n, int k) {
    using G = Geometry<Shape>;
    int consumer = threadIdx.x / GROUP_THREADS - 1, steps = (k + G::BK - 1) / G::BK;
    unsigned full = shared + G::BARRIERS, empty = full + 8 * Shape::STAGES;
    auto release = [&](int stage) {
        if (threadIdx.x % 32 == 0) {
            barrier_arrive(empty + 8 * stage);
        }
    };
    Ring<Shape::STAGES> ring;
    for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
        float sums[G::PARTS][Shape::BN / 2];
        Moments<typename G::Element> moments[G::PARTS];
        int before = 0;
        for (int step = 0; step < steps; step++, ring.next()) {
            unsigned rows = shared + ring.stage * G::STAGE_BYTES, b_tile = rows + G::A_BYTES;
            rows += consumer * G::WM * ROW_BYTES;
            barrier_wait(full + 8 * ring.stage, ring.parity);
            wgmma_fence();
            multiply<Shape, TRANSPOSED>(sums, rows, b_tile, step > 0);
            wgmma_commit();
#pragma unroll
            for (int part = 0; part < G::PARTS; part++) {  // while the tensor cores multiply
                moments[part].add(rows + part * 64 * ROW_BYTES, step * G::BK, k);
            }
            __syncwarp();  // all lanes have read the tile
            if (step > 0) {
                wgmma_wait<1>();
                release(before);
            }
            before = ring.stage;
        }
        wgmma_wait<0>();
        release(before);
        int2 at = tiles(tile, 0);
#pragma unroll
        for (int part = 0; part < G::PARTS; part++) {
            normalise(sums[part], moments[part].mean_and_scale(k, eps), weight_sums, at.y, n);
        }
        store<Shape>(y, epilogue, sums, shared, consumer, at.x + consumer * G::WM, at.y, m, n);
    }
    if (threadIdx.x % GROUP_THREADS == 0) {
        stores_read<0>();  // shared memory lasts as long as the block
    }
}

// y [m, n] of x [m, k] and W' [n, k], as tensor maps; weight_sums and shift (c and b') are [n].
template <class Shape>
__device__ inline void layer_norm_linear(const TensorMap &x, const TensorMap &w, const TensorMap &y, const float *weight_sums,
                                         const Epilogue &epilogue, float eps, int m, int n, int k) {
    using G = Geometry<Shape>;
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory), full = shared + G::BARRIERS, empty = full + 8 * Shape::STAGES;
    launch_dependents();
    if (threadIdx.x == 0) {
        prefetch_map(x);
        prefetch_map(w);
        prefetch_map(y);
        for (int stage = 0; stage < Shape::STAGES; stage++) {
            barrier_init(full + 8 * stage, 1);
            barrier_init(empty + 8 * stage, Shape::CONSUMERS * 4);  // a warp each
        }
        fence_barrier_init();
    }
    __syncthreads();
    wait_for_launches_before();
    Tiles<Shape> tiles(m, n);
    if (threadIdx.x < GROUP_THREADS) {
        if (Shape::CONSUMERS > 1) {
            give_registers_back<40>();
        }
        if (threadIdx.x == 0) {
            produce<Shape, TRANSPOSED>(x, w, Rows(), shared, tiles, 0, (k + G::BK - 1) / G::BK);
        }
    } else {
        if (Shape::CONSUMERS > 1) {
            take_registers<232>();
        }
        consume_and_normalise<Shape>(y, epilogue, weight_sums, eps, shared, tiles, m, n, k);
    }
}

#define LAYER_NORM_LINEAR(name, SHAPE)                                                                                \
    extern "C" __global__ void __launch_bounds__(Geometry<SHAPE>::THREADS, 1)                                         \
        name(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,                                \
             const __grid_constant__ TensorMap y, const float *__restrict__ weight_sums,                              \
             const float *__restrict__ shift, float eps, int m, int n, int k, int activation) {                       \
        Epilogue epilogue{nullptr, shift, nullptr, 1.0f, activation};                                                 \
        layer_norm_linear<SHAPE>(x, w, y, weight_sums, epilogue, eps, m, n, k);                                       \
    }

LAYER_NORM_LINEAR(layer_norm_linear_f16_128x160, Square160<F16>)
LAYER_NORM_LINEAR(layer_norm_linear_f16_128x128, Square<F16>)
LAYER_NORM_LINEAR(layer_norm_linear_f16_64x64, Small<F16>)
LAYER_NORM_LINEAR(layer_norm_linear_tf32_128x160, Square160<TF32>)
LAYER_NORM_LINEAR(layer_norm_linear_tf32_128x128, Square<TF32>)
LAYER_NORM_LINEAR(layer_norm_linear_tf32_64x64, Small<TF32>)
