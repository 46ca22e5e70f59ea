// Winograd's F(2×2, 3×3): four neighbouring outputs of a 3×3 window take 16 multiplications per channel instead of 36.
//
//     U = G g Gᵀ     V = Bᵀ d B     M = Σ over channels of U ∘ V     output = epilogue(Aᵀ M A)
//
//         ⎡ 1    0    0  ⎤        ⎡ 1  0 −1  0⎤        ⎡1  1  1  0⎤
//     G = ⎢ ½    ½    ½  ⎥   Bᵀ = ⎢ 0  1  1  0⎥   Aᵀ = ⎣0  1 −1 −1⎦      (Lavin and Gray, 2015, arXiv 1509.09308)
//         ⎢ ½   −½    ½  ⎥        ⎢ 0 −1  1  0⎥
//         ⎣ 0    0    1  ⎦        ⎣ 0  1  0 −1⎦
//
// For each of the 16 places in U, V and M that is a product of matrices, output channels × tiles of the image. A warp has two
// places, a block 64 output channels and 32 tiles; V is made on the way into shared memory, M never leaves the block.
//
// Limited by the arithmetic units; a step is 8 channels, and one block of 255 registers per thread fills an SM.
// nvrtc: --gpu-architecture=compute_80 // run: conv // trial: conv
#include "conv.cuh"
#include "conv_parts.cuh"
#include "cp_async.cuh"
#include "epilogue.cuh"
#include "fetch.cuh"
#include "vectors.cuh"

constexpr int CHANNELS = 8, OUTPUTS = 64, TILES = 32;  // input channels per step; output channels and tiles per block
constexpr int PLACES = 16, THREADS = 256;
constexpr int U = CHANNELS * PLACES * OUTPUTS, V = CHANNELS * PLACES * TILES;
constexpr int M_ROW = TILES + 4;  // 4 floats after each row of M
constexpr int SHARED = 2 * (U + V) * sizeof(float);  // bytes per block: two stages of U and V
static_assert(PLACES * OUTPUTS / 2 * M_ROW * sizeof(float) <= SHARED, "half of M must fit where U and V were");

// The weights' transform, U [tiles of OUTPUTS][channels in whole steps][16][OUTPUTS], zeros beyond the last.
// ANCHOR: weights
extern "C" __global__ void __launch_bounds__(THREADS) winograd_weights(const float *weight, float *u, Conv2d conv) {
    int padded = (conv.channels + CHANNELS - 1) / CHANNELS * CHANNELS;
    int lane = threadIdx.x % OUTPUTS, slot = blockIdx.x * (THREADS / OUTPUTS) + threadIdx.x / OUTPUTS;
    int k = slot / padded * OUTPUTS + lane, c = slot % padded;
    if (slot / padded * OUTPUTS >= conv.out_channels) {
        return;
    }
    bool inside = k < conv.out_channels && c < conv.channels;
    const float *from = weight + ((size_t)k * conv.channels + c) * 9;
    float half[4][3];  // G g
#pragma unroll
    for (int j = 0; j < 3; j++) {
        float top = fetch(from + j, inside), middle = 0.5f * fetch(from + 3 + j, inside), bottom = fetch(from + 6 + j, inside);
        float sum = 0.5f * (top + bottom);
        half[0][j] = top;
        half[1][j] = sum + middle;
        half[2][j] = sum - middle;
        half[3][j] = bottom;
    }
    float *to = u + (size_t)slot * PLACES * OUTPUTS + lane;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float sum = 0.5f * (half[i][0] + half[i][2]), middle = 0.5f * half[i][1];
        to[4 * i * OUTPUTS] = half[i][0];
        to[(4 * i + 1) * OUTPUTS] = sum + middle;
        to[(4 * i + 2) * OUTPUTS] = sum - middle;
        to[(4 * i + 3) * OUTPUTS] = half[i][2];
    }
}
// ANCHOR_END: weights

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv_winograd(const float *__restrict__ input, const float *__restrict__ u, const float *__restrict__ bias,
                  float *__restrict__ output, float *__restrict__ parts, unsigned *__restrict__ arrived, Conv2d conv,
                  int steps_each, Epilogue epilogue) {
    extern __shared__ float4 shared[];
    float *memory = reinterpret_cast<float *>(shared);  // two stages of U and V; in the end M
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, down = lane / 4 * 4, across = lane % 4 * 4;
    int row_tiles = (conv.out_channels + OUTPUTS - 1) / OUTPUTS, row_tile = blockIdx.x % row_tiles;
    int tiles_x = (conv.out_width + 1) / 2, tiles_image = tiles_x * ((conv.out_height + 1) / 2);
    int all_steps = (conv.channels + CHANNELS - 1) / CHANNELS, first = blockIdx.y * steps_each;
    int steps = min(steps_each, all_steps - first);

    // This thread's tile of the image, for one channel a step; which of its 16 values lie in the image.
    int tile = blockIdx.x / row_tiles * TILES + lane, n = tile / tiles_image;
    int tile_y = tile % tiles_image / tiles_x * 2, tile_x = tile % tiles_x * 2;
    int top = tile_y - conv.padding_y, left = tile_x - conv.padding_x, area = conv.height * conv.width;
    int channel = first * CHANNELS + warp;
    const float *from = input + ((long long)n * conv.channels + channel) * area + (long long)top * conv.width + left;
    unsigned inside = 0;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        bool in = (unsigned)(top + i / 4) < (unsigned)conv.height && (unsigned)(left + i % 4) < (unsigned)conv.width;
        inside |= (unsigned)(n < conv.images && in) << i;
    }
    const float *u_from = u + ((size_t)row_tile * all_steps + first) * U + threadIdx.x * 4;

    float d[16];
    auto fetch_input = [&](bool more) {  // of the next step; zeros, if there is none
        unsigned these = more && channel < conv.channels ? inside : 0;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            d[i] = fetch(from + i / 4 * conv.width + i % 4, these >> i & 1);
        }
        from += (long long)CHANNELS * area;
        channel += CHANNELS;
    };
    auto transform = [&](int stage) {
        float *v = memory + stage * (U + V) + U + warp * PLACES * TILES + lane;
        float half[4][4];  // Bᵀ d
#pragma unroll
        for (int j = 0; j < 4; j++) {
            half[0][j] = d[j] - d[8 + j];
            half[1][j] = d[4 + j] + d[8 + j];
            half[2][j] = d[8 + j] - d[4 + j];
            half[3][j] = d[4 + j] - d[12 + j];
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[4 * i * TILES] = half[i][0] - half[i][2];
            v[(4 * i + 1) * TILES] = half[i][1] + half[i][2];
            v[(4 * i + 2) * TILES] = half[i][2] - half[i][1];
            v[(4 * i + 3) * TILES] = half[i][1] - half[i][3];
        }
    };
    auto copy_weights = [&](int stage) {
        float *to = memory + stage * (U + V) + threadIdx.x * 4;
#pragma unroll
        for (int i = 0; i < U; i += 4 * THREADS) {
            copy16(to + i, u_from + i);
        }
        u_from += U;
    };

    float m[2][8][8] = {};
    copy_weights(0);
    fetch_input(true);
    transform(0);
    copies_arrived();
    __syncthreads();  // the first step's values are there
    for (int step = 0; step < steps; step++) {
        bool more = step + 1 < steps;
        int stage = step % 2;
        if (more) {
            copy_weights(stage ^ 1);
        }
        fetch_input(more);
        const float *us = memory + stage * (U + V) + warp * 2 * OUTPUTS + down;
        const float *vs = memory + stage * (U + V) + U + warp * 2 * TILES + across;
        float a[2][8], b[2][8];
        auto read = [&](int at, int to) {  // at: twice the channel, plus which of the warp's two places
            int place = at / 2 * PLACES + at % 2;
            read4(a[to], us + place * OUTPUTS);
            read4(a[to] + 4, us + place * OUTPUTS + 32);
            read4(b[to], vs + place * TILES);
            read4(b[to] + 4, vs + place * TILES + 16);
        };
        read(0, 0);
#pragma unroll
        for (int at = 0; at < 2 * CHANNELS; at++) {
            if (at == CHANNELS && more) {
                transform(stage ^ 1);  // half a step after the loads: they have arrived
            }
            if (at + 1 < 2 * CHANNELS) {
                read(at + 1, (at + 1) % 2);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    m[at % 2][i][j] += a[at % 2][i] * b[at % 2][j];
                }
            }
        }
        copies_arrived();
        __syncthreads();  // the next step's values are there, and no thread needs this one's any more
    }

    // M through shared memory, 32 output channels at a time: a thread then has all 16 places of its tile.
    float4 quads[8];  // 2×2 outputs each, of output channel warp + 8·at
#pragma unroll
    for (int round = 0; round < 2; round++) {
        if (round) {
            __syncthreads();  // the first 32 have been read
        }
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const float *four = &m[i / 8][4 * round + i / 2 % 4][i % 2 * 4];
            float *to = memory + ((warp * 2 + i / 8) * 32 + down + i / 2 % 4) * M_ROW + across + i % 2 * 16;
            *reinterpret_cast<float4 *>(to) = make_float4(four[0], four[1], four[2], four[3]);
        }
        __syncthreads();  // all of M is there
#pragma unroll
        for (int at = 0; at < 4; at++) {
            const float *at_tile = memory + (warp + 8 * at) * M_ROW + lane;
            float half[2][4];  // Aᵀ M
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float m0 = at_tile[j * 32 * M_ROW], m1 = at_tile[(4 + j) * 32 * M_ROW];
                float m2 = at_tile[(8 + j) * 32 * M_ROW], m3 = at_tile[(12 + j) * 32 * M_ROW];
                half[0][j] = m0 + m1 + m2;
                half[1][j] = m1 - m2 - m3;
            }
            quads[round * 4 + at] = make_float4(half[0][0] + half[0][1] + half[0][2], half[0][1] - half[0][2] - half[0][3],
                                                half[1][0] + half[1][1] + half[1][2], half[1][1] - half[1][2] - half[1][3]);
        }
    }
    auto finish = [&](int at, float4 quad) {
        int k = row_tile * OUTPUTS + warp + 8 * at;
        if (n >= conv.images || k >= conv.out_channels) {
            return;
        }
        float add = bias_at(bias, k);
        float *to = output + (((long long)n * conv.out_channels + k) * conv.out_height + tile_y) * conv.out_width + tile_x;
        bool below = tile_y + 1 < conv.out_height, right = tile_x + 1 < conv.out_width;
        if (conv.out_width % 2 == 0) {
            epilogue.finish(reinterpret_cast<float2 *>(to), make_float2(quad.x, quad.y), make_float2(add, add));
            if (below) {
                float2 *next = reinterpret_cast<float2 *>(to + conv.out_width);
                epilogue.finish(next, make_float2(quad.z, quad.w), make_float2(add, add));
            }
            return;
        }
        epilogue.finish(to, quad.x, add);
        if (right) {
            epilogue.finish(to + 1, quad.y, add);
        }
        if (below) {
            epilogue.finish(to + conv.out_width, quad.z, add);
        }
        if (below && right) {
            epilogue.finish(to + conv.out_width + 1, quad.w, add);
        }
    };
    if (gridDim.y > 1 && !add_parts<THREADS>(parts, arrived, quads)) {
        return;  // the tile's last block will write it
    }
#pragma unroll
    for (int at = 0; at < 8; at++) {
        finish(at, quads[at]);
    }
}
// ANCHOR_END: kernel
