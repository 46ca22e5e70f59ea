// Winograd's F(4×4, 3×3): sixteen neighbouring outputs of a 3×3 window take 36 multiplications per channel instead of 144.
//
//     weights ──▶ U [36][C][K] ─┐
//     input ────▶ V [36][C][T] ─┴▶ M [36][K][T] = U · V, place by place ──▶ output          T: tiles of 4 × 4 outputs
//
// As step 17, with larger tiles: U = G g Gᵀ, V = Bᵀ d B, output = epilogue(Aᵀ M A). Three kernels, one after the other, since 36
// places of M are too many for a block's registers. With the points 0, ±a, ±b, ∞ for polynomials to be evaluated at:
//
//          ⎡a²b²    0  −a²−b²   0      1   0⎤       ⎡ 1/a²b²    0       0    ⎤
//          ⎢ 0    −ab²  −b²     a      1   0⎥       ⎢ 1/p      a/p     a²/p  ⎥        ⎡1  1   1   1   1  0⎤
//     Bᵀ = ⎢ 0     ab²  −b²    −a      1   0⎥   G = ⎢ 1/p     −a/p     a²/p  ⎥   Aᵀ = ⎢0  a  −a   b  −b  0⎥
//          ⎢ 0    −a²b  −a²     b      1   0⎥       ⎢ 1/q      b/q     b²/q  ⎥        ⎢0  a²  a²  b²  b² 0⎥
//          ⎢ 0     a²b  −a²    −b      1   0⎥       ⎢ 1/q     −b/q     b²/q  ⎥        ⎣0  a³ −a³  b³ −b³ 1⎦
//          ⎣ 0     a²b²   0  −a²−b²    0   1⎦       ⎣  0        0       1    ⎦        p = 2a²(a²−b²), q = 2b²(b²−a²)
//
// U, V and M have zeros, or what came of zeros, beyond the last channel and tile, up to whole steps and rows.
//
// Limited by the arithmetic units in the products; by memory, or by the L2 cache if V and M fit it, in the transforms.
// nvrtc: --gpu-architecture=compute_80 // run: conv // trial: conv
#include "conv.cuh"
#include "cp_async.cuh"
#include "epilogue.cuh"
#include "fetch.cuh"
#include "lanes.cuh"
#include "vectors.cuh"

constexpr int PLACES = 36;
constexpr int STEP = 16;                             // channels per step of a product
constexpr int ROW = 32;                              // rows of U and V are multiples of it: whole warps, and 128 bytes
constexpr int LANES = 32, WARPS = 8;                 // of a block of a transform
constexpr int THREADS = LANES * WARPS;

// a = 5/8 and b = 3/2, with which errors are smaller than with 1 and 2, as Lavin and Gray (2015, arXiv 1509.09308) have them. All
// but the entries of G are exact in f32.
constexpr float A = 0.625f, A2 = A * A, A3 = A * A2;
constexpr float B = 1.5f, B2 = B * B, B3 = B * B2;
constexpr double P = 2.0 * A2 * (A2 - B2), Q = 2.0 * B2 * (B2 - A2);

__host__ __device__ constexpr int whole(int value, int of) { return (value + of - 1) / of * of; }

// Products G g, Bᵀ d and Aᵀ m with a column each; half the multiplications serve a point and its negative.
// ANCHOR: columns
__device__ inline void weights_column(float g0, float g1, float g2, float (&u)[6]) {
    float even_a = (g0 + A2 * g2) * (float)(1 / P), odd_a = g1 * (float)(A / P);
    float even_b = (g0 + B2 * g2) * (float)(1 / Q), odd_b = g1 * (float)(B / Q);
    u[0] = g0 * (float)(1 / (A2 * B2));
    u[1] = even_a + odd_a;
    u[2] = even_a - odd_a;
    u[3] = even_b + odd_b;
    u[4] = even_b - odd_b;
    u[5] = g2;
}
__device__ inline void input_column(float d0, float d1, float d2, float d3, float d4, float d5, float (&v)[6]) {
    float even_a = d4 - B2 * d2, odd_a = A * (d3 - B2 * d1);
    float even_b = d4 - A2 * d2, odd_b = B * (d3 - A2 * d1);
    v[0] = A2 * B2 * d0 - (A2 + B2) * d2 + d4;
    v[1] = even_a + odd_a;
    v[2] = even_a - odd_a;
    v[3] = even_b + odd_b;
    v[4] = even_b - odd_b;
    v[5] = A2 * B2 * d1 - (A2 + B2) * d3 + d5;
}
__device__ inline void output_column(float m0, float m1, float m2, float m3, float m4, float m5, float (&y)[4]) {
    float sum_a = m1 + m2, difference_a = m1 - m2, sum_b = m3 + m4, difference_b = m3 - m4;
    y[0] = m0 + sum_a + sum_b;
    y[1] = A * difference_a + B * difference_b;
    y[2] = A2 * sum_a + B2 * sum_b;
    y[3] = A3 * difference_a + B3 * difference_b + m5;
}
// ANCHOR_END: columns

// U of 32 output channels × 8 input channels per block, from whole rows of weights.
// ANCHOR: weights
__device__ inline void transform_weights(int block, const float *weight, float *u, const Conv2d &conv) {
    __shared__ float rows[LANES][WARPS * 9 + 1];  // one more, so that lanes meet different banks
    int channels = whole(conv.channels, STEP), row = whole(conv.out_channels, ROW);
    int first_c = block % (channels / WARPS) * WARPS, first_k = block / (channels / WARPS) * LANES;
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    for (int i = threadIdx.x; i < LANES * WARPS * 9; i += THREADS) {
        int k = i / (WARPS * 9), at = i % (WARPS * 9);
        bool inside = first_k + k < conv.out_channels && first_c + at / 9 < conv.channels;
        rows[k][at] = fetch(weight + ((size_t)(first_k + k) * conv.channels + first_c) * 9 + at, inside);
    }
    __syncthreads();  // the weights are there
    const float *g = &rows[lane][warp * 9];
    float half[3][6];  // (G g)ᵀ
#pragma unroll
    for (int j = 0; j < 3; j++) {
        weights_column(g[j], g[3 + j], g[6 + j], half[j]);
    }
    size_t place = (size_t)channels * row;
    float *to = u + (size_t)(first_c + warp) * row + first_k + lane;
#pragma unroll
    for (int i = 0; i < 6; i++) {
        float line[6];
        weights_column(half[0][i], half[1][i], half[2][i], line);
#pragma unroll
        for (int j = 0; j < 6; j++) {
            to[(6 * i + j) * place] = line[j];
        }
    }
}
// ANCHOR_END: weights

// Where a tile lies: its image, and the first of its outputs.
struct Place {
    int n, y, x;
    __device__ Place(int tile, const Conv2d &conv) {
        int tiles_x = (conv.out_width + 3) / 4, tiles_image = tiles_x * ((conv.out_height + 3) / 4);
        n = tile / tiles_image;
        y = tile % tiles_image / tiles_x * 4;
        x = tile % tiles_x * 4;
    }
};

// V of 32 tiles × 8 channels per block, for `tiles` tiles of all images' from tile `first` on.
// ANCHOR: input
__device__ inline void transform_input(int block, const float *input, float *v, const Conv2d &conv, int first, int tiles) {
    int channels = whole(conv.channels, STEP), row = whole(tiles, ROW);
    int tile = block % (row / LANES) * LANES + threadIdx.x % LANES;
    int c = block / (row / LANES) * WARPS + threadIdx.x / LANES;
    Place at(first + tile, conv);
    int top = at.y - conv.padding_y, left = at.x - conv.padding_x;
    const float *from = input + (((long long)at.n * conv.channels + c) * conv.height + top) * conv.width + left;
    bool exists = tile < tiles && c < conv.channels;
    float d[6][6];
#pragma unroll
    for (int i = 0; i < 6; i++) {
        bool in_row = exists && (unsigned)(top + i) < (unsigned)conv.height;
#pragma unroll
        for (int j = 0; j < 6; j++) {
            d[i][j] = fetch(from + i * conv.width + j, in_row && (unsigned)(left + j) < (unsigned)conv.width);
        }
    }
    float half[6][6];  // (Bᵀ d)ᵀ
#pragma unroll
    for (int j = 0; j < 6; j++) {
        input_column(d[0][j], d[1][j], d[2][j], d[3][j], d[4][j], d[5][j], half[j]);
    }
    size_t place = (size_t)channels * row;
    float *to = v + (size_t)c * row + tile;
#pragma unroll
    for (int i = 0; i < 6; i++) {
        float line[6];
        input_column(half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i], line);
#pragma unroll
        for (int j = 0; j < 6; j++) {
            to[(6 * i + j) * place] = line[j];
        }
    }
}
// ANCHOR_END: input

// Both in one launch, since neither waits for the other: the first `of_weights` blocks make U, the others V.
extern "C" __global__ void __launch_bounds__(THREADS)
    winograd_4x4_transforms(const float *__restrict__ weight, float *__restrict__ u, int of_weights,
                            const float *__restrict__ input, float *__restrict__ v, Conv2d conv, int first, int tiles) {
    if (blockIdx.x < of_weights) {
        transform_weights(blockIdx.x, weight, u, conv);
    } else {
        transform_input(blockIdx.x - of_weights, input, v, conv, first, tiles);
    }
}

// A shape of tile of a product; what follows from it for a launch. The host reads these from the compiled kernel by their names.
template <class Shape> struct Geometry {
    static constexpr int THREADS = Shape::BM / Shape::WM * (Shape::BN / Shape::WN) * 32;
    static constexpr int SHARED = Shape::STAGES * STEP * (Shape::BM + Shape::BN) * sizeof(float);  // bytes
};

// A block makes a tile of one place of M, over `steps_each` steps from step steps_each · blockIdx.y on.
template <class Shape> struct Product {
    static constexpr int BM = Shape::BM, BN = Shape::BN, WM = Shape::WM, WN = Shape::WN, STAGES = Shape::STAGES;
    static constexpr int THREADS = Geometry<Shape>::THREADS;
    static constexpr int LANES_Y = 4, LANES_X = 8;              // a warp's lanes, down and across its WM × WN
    static constexpr int TM = WM / LANES_Y, TN = WN / LANES_X;  // rows and columns per thread, in groups of 4
    static constexpr int U_COPIES = STEP * BM / 4 / THREADS, V_COPIES = STEP * BN / 4 / THREADS;  // of 16 bytes, per thread and step
    static constexpr int U_APART = THREADS / (BM / 4), V_APART = THREADS / (BN / 4);              // channels between them
    static constexpr int U_STAGE = STEP * BM, V_STAGE = STEP * BN;
    static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread's rows and columns must come in groups of 4");
    static_assert(THREADS % (BM / 4) == 0 && THREADS % (BN / 4) == 0, "the threads must copy whole rows at a time");
    static_assert(U_COPIES * U_APART == STEP && V_COPIES * V_APART == STEP, "the copies must cover a step exactly");

    // ANCHOR: product
    __device__ static void run(const float *__restrict__ u, const float *__restrict__ v, float *__restrict__ m,
                               const Conv2d &conv, int tiles, int steps_each) {
        extern __shared__ float4 shared[];
        float *u_stages = reinterpret_cast<float *>(shared), *v_stages = u_stages + STAGES * U_STAGE;
        int channels = whole(conv.channels, STEP), u_row = whole(conv.out_channels, ROW), v_row = whole(tiles, ROW);
        int down = (u_row + BM - 1) / BM, across = (v_row + BN - 1) / BN;
        int place = blockIdx.x / (down * across), in_place = blockIdx.x % (down * across);
        int first_row = in_place % down * BM, first_column = in_place / down * BN;
        int first = blockIdx.y * steps_each, steps = min(steps_each, channels / STEP - first);

        // This thread's place in the copies; the same columns in each of them.
        int u_along = threadIdx.x % (BM / 4) * 4, u_down = threadIdx.x / (BM / 4);
        int v_along = threadIdx.x % (BN / 4) * 4, v_down = threadIdx.x / (BN / 4);
        bool u_inside = first_row + u_along < u_row, v_inside = first_column + v_along < v_row;
        size_t c = (size_t)place * channels + first * STEP;
        const float *u_from = u + (u_inside ? (c + u_down) * u_row + first_row + u_along : 0);
        const float *v_from = v + (v_inside ? (c + v_down) * v_row + first_column + v_along : 0);
        size_t u_apart = u_inside ? (size_t)U_APART * u_row : 0, v_apart = v_inside ? (size_t)V_APART * v_row : 0;
        float *u_to = u_stages + u_down * BM + u_along, *v_to = v_stages + v_down * BN + v_along;
        auto copy = [&](int stage) {  // of the next step
#pragma unroll
            for (int i = 0; i < U_COPIES; i++) {
                copy16(u_to + stage * U_STAGE + i * U_APART * BM, u_from, u_inside);
                u_from += u_apart;
            }
#pragma unroll
            for (int i = 0; i < V_COPIES; i++) {
                copy16(v_to + stage * V_STAGE + i * V_APART * BN, v_from, v_inside);
                v_from += v_apart;
            }
        };
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; stage++) {
            if (stage < steps) {
                copy(stage);
            }
            end_copy_group();
        }

        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        int row = warp / (BN / WN) * WM + Lanes<LANES_Y, LANES_X>::row(lane) * 4;
        int column = warp % (BN / WN) * WN + Lanes<LANES_Y, LANES_X>::column(lane) * 4;
        const float *us = u_stages + row, *vs = v_stages + column;
        float sums[TM][TN] = {}, rows[2][TM], columns[2][TN];
        auto read = [&](int i, int to) {
#pragma unroll
            for (int r = 0; r < TM; r += 4) {
                read4(&rows[to][r], us + i * BM + r * LANES_Y);
            }
#pragma unroll
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[to][s], vs + i * BN + s * LANES_X);
            }
        };
        copy_groups_arrived<STAGES - 2>();
        __syncthreads();  // the first step's values are there
        read(0, 0);
        int stage = 0, free_stage = STAGES - 1;
        for (int step = 0; step < steps; step++) {
            if (step + STAGES - 1 < steps) {
                copy(free_stage);
            }
            end_copy_group();
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            free_stage = free_stage + 1 == STAGES ? 0 : free_stage + 1;
#pragma unroll
            for (int i = 0; i < STEP; i++) {
                if (i < STEP - 1) {
                    read(i + 1, (i + 1) % 2);
                } else {
                    copy_groups_arrived<STAGES - 2>();
                    __syncthreads();  // the next step's values are there, and all threads have read this one's
                    // After the last step there is no next: what is read once more is not used.
                    int next = step + 1 < steps ? stage : 0;
                    us = u_stages + next * U_STAGE + row;
                    vs = v_stages + next * V_STAGE + column;
                    read(0, 0);
                }
#pragma unroll
                for (int at = 0; at < TM * TN; at++) {
                    // Back and forth, so that each multiply-add shares an operand with the one before.
                    int r = at / TN, s = r % 2 ? TN - 1 - at % TN : at % TN;
                    sums[r][s] = fmaf(rows[i % 2][r], columns[i % 2][s], sums[r][s]);
                }
            }
        }

        float *to = m + ((size_t)blockIdx.y * PLACES + place) * conv.out_channels * v_row;
#pragma unroll
        for (int r = 0; r < TM; r++) {
            int k = first_row + row + r / 4 * 4 * LANES_Y + r % 4;
#pragma unroll
            for (int s = 0; s < TN; s += 4) {
                int t = first_column + column + s * LANES_X;
                if (k < conv.out_channels && t < v_row) {
                    *reinterpret_cast<float4 *>(to + (size_t)k * v_row + t) =
                        make_float4(sums[r][s], sums[r][s + 1], sums[r][s + 2], sums[r][s + 3]);
                }
            }
        }
    }
    // ANCHOR_END: product
};

struct Wide {
    static constexpr int BM = 64, BN = 128;  // output channels and tiles per block
    static constexpr int WM = 32, WN = 64;   // per warp
    static constexpr int STAGES = 3;
};
struct Square {
    static constexpr int BM = 64, BN = 64;
    static constexpr int WM = 32, WN = 64;
    static constexpr int STAGES = 3;
};
// For few tiles; with 8 × 4 sums per thread in place of 8 × 8, and more warps for it.
struct Tall {
    static constexpr int BM = 128, BN = 32;
    static constexpr int WM = 32, WN = 32;
    static constexpr int STAGES = 3;
};

// A kernel for a shape, of which BLOCKS must fit an SM at a time.
#define PRODUCT_KERNEL(name, BLOCKS, SHAPE)                                                                             \
    extern "C" __global__ void __launch_bounds__(Geometry<SHAPE>::THREADS, BLOCKS)                                      \
        name(const float *__restrict__ u, const float *__restrict__ v, float *__restrict__ m, Conv2d conv, int tiles,  \
             int steps_each) {                                                                                         \
        Product<SHAPE>::run(u, v, m, conv, tiles, steps_each);                                                         \
    }

PRODUCT_KERNEL(winograd_4x4_64x128, 4, Wide)
PRODUCT_KERNEL(winograd_4x4_64x64, 8, Square)
PRODUCT_KERNEL(winograd_4x4_128x32, 5, Tall)

// The outputs of 32 tiles × 8 output channels per block; the sum of `cuts` M.
// ANCHOR: output
extern "C" __global__ void __launch_bounds__(THREADS)
    winograd_4x4_output(const float *__restrict__ m, const float *__restrict__ bias, float *__restrict__ output, Conv2d conv,
                        int first, int tiles, int cuts, Epilogue epilogue) {
    int row = whole(tiles, ROW);
    int tile = blockIdx.x % (row / LANES) * LANES + threadIdx.x % LANES;
    int k = blockIdx.x / (row / LANES) * WARPS + threadIdx.x / LANES;
    if (tile >= tiles || k >= conv.out_channels) {
        return;
    }
    size_t place = (size_t)conv.out_channels * row;
    const float *from = m + (size_t)k * row + tile;
    float sums[PLACES];
#pragma unroll
    for (int i = 0; i < PLACES; i++) {
        sums[i] = from[i * place];
    }
    for (int cut = 1; cut < cuts; cut++) {
        from += PLACES * place;
#pragma unroll
        for (int i = 0; i < PLACES; i++) {
            sums[i] += from[i * place];
        }
    }
    float half[6][4];  // (Aᵀ M)ᵀ
#pragma unroll
    for (int j = 0; j < 6; j++) {
        output_column(sums[j], sums[6 + j], sums[12 + j], sums[18 + j], sums[24 + j], sums[30 + j], half[j]);
    }
    Place at(first + tile, conv);
    float add = bias_at(bias, k);
    float *to = output + (((size_t)at.n * conv.out_channels + k) * conv.out_height + at.y) * conv.out_width + at.x;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float y[4];
        output_column(half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i], y);
        if (at.y + i >= conv.out_height) {
            break;
        }
        if (conv.out_width % 4 == 0) {
            epilogue.finish(reinterpret_cast<float4 *>(to), make_float4(y[0], y[1], y[2], y[3]), make_float4(add, add, add, add));
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (at.x + j < conv.out_width) {
                    epilogue.finish(to + j, y[j], add);
                }
            }
        }
        to += conv.out_width;
    }
}
// ANCHOR_END: output
