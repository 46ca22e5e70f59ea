// A convolution of 3 × 3 over the tiles of a list, with its epilogue; all other pixels of y keep what they hold. How many tiles there
// are, only the device knows: blocks stay and take one piece of work after the other until the list is done.
//
//     piece      8 × 8 pixels × 32 channels of y        4 warps, 2 × 2 of them, 32 pixels × 16 channels each
//     stage      10 × 10 pixels of x, and 9 × 32 rows of w, 32 channels of each; a row has 64 bytes, and 16 more
//     tap        the tile's pixels in the window, a row and a column on: ldmatrix takes an address per pixel, so no copy
//
// x [N, H, W, C], w [K, 3, 3, C], y [N, H, W, K] in f16 channels last; C and K are multiples of 32.
//
// Limited by weights from L2: a piece reads 9 · 32 · C of them for 64 pixels, where a kernel for whole images has tiles of 128 and 256.
// nvrtc: --gpu-architecture=compute_80 // run: test temporal // trial: none, only its test prepares the inputs that it takes
#include "cp_async.cuh"
#include "mma.cuh"

constexpr int TILE = 8, WINDOW = TILE + 2;
constexpr int BN = 32;         // channels of y per piece
constexpr int BK = 32;         // channels of x per stage
constexpr int WM = 32, WN = 16;  // pixels and channels per warp
constexpr int PITCH = BK + 8;  // eight rows of a matrix lie in eight different groups of banks
constexpr int THREADS = 128;
constexpr int X_VALUES = WINDOW * WINDOW * PITCH, W_VALUES = 9 * BN * PITCH;
constexpr int STAGE = X_VALUES + W_VALUES;
constexpr int STAGES = 2;

using Half = unsigned short;
constexpr int SHARED_BYTES = STAGES * STAGE * (int)sizeof(Half);

struct Image {
    int height, width, in_channels, out_channels;
};

// Where a piece begins.
struct Piece {
    int image, top, left, channel;
    __device__ Piece(unsigned tile, int channel, const Image &size) : channel(channel) {
        int across = (size.width + TILE - 1) / TILE, each = (size.height + TILE - 1) / TILE * across;
        image = tile / each;
        top = tile % each / across * TILE;
        left = tile % each % across * TILE;
    }
};

// Pixel and channel of a warp's sums, as the epilogue wants them; beyond the edge the nearest pixel inside.
struct PixelPlace {
    Piece piece;
    int height, width, pixel, column;
    __device__ PixelPlace(const Piece &piece, const Image &size, int pixel, int column)
        : piece(piece), height(size.height), width(size.width), pixel(pixel + threadIdx.x % 32 / 4),
          column(piece.channel + column + threadIdx.x % 4 * 2) {}
    __device__ int2 at(int i) const {
        int of_tile = pixel + i / 2 % 2 * 8;
        return make_int2(piece.top + of_tile / TILE, piece.left + of_tile % TILE);
    }
    __device__ int2 operator()(int i) const {
        int2 place = at(i);
        int row = (piece.image * height + min(place.x, height - 1)) * width + min(place.y, width - 1);
        return make_int2(row, column + i / 4 * 8);
    }
    __device__ bool inside(int i) const { return at(i).x < height && at(i).y < width; }
};

// ANCHOR: fetch
// Asks for a stage: channels from `first` on of the window around a piece, and of the weights of its channels.
__device__ void fetch(Half *stage, const Half *x, const Half *w, const Piece &piece, int first, const Image &size) {
    constexpr int PARTS = BK / 8;  // of a row, 16 bytes each
    for (int i = threadIdx.x; i < WINDOW * WINDOW * PARTS; i += THREADS) {
        int pixel = i / PARTS, part = i % PARTS * 8;
        int row = piece.top + pixel / WINDOW - 1, column = piece.left + pixel % WINDOW - 1;
        bool inside = row >= 0 && row < size.height && column >= 0 && column < size.width;
        size_t at = inside ? ((size_t)(piece.image * size.height + row) * size.width + column) * size.in_channels + first + part : 0;
        copy16(stage + pixel * PITCH + part, x + at, inside);
    }
    for (int i = threadIdx.x; i < 9 * BN * PARTS; i += THREADS) {
        int tap = i / PARTS / BN, channel = i / PARTS % BN, part = i % PARTS * 8;
        const Half *from = w + ((size_t)(piece.channel + channel) * 9 + tap) * size.in_channels + first + part;
        copy16(stage + X_VALUES + (tap * BN + channel) * PITCH + part, from, true);
    }
    end_copy_group();
}
// ANCHOR_END: fetch

// ANCHOR: multiply
// Adds a stage's products to the sums of a warp, whose pixels and channels begin at (first_pixel, first_channel).
__device__ void multiply(float (&sums)[WM / 16][WN / 8 * 4], const Half *stage, int first_pixel, int first_channel) {
    int lane = threadIdx.x % 32;
    const Half *weights = stage + X_VALUES + (first_channel + lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8;
    for (int tap = 0; tap < 9; tap++) {
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            unsigned columns[4];
            load_matrices(columns, weights + tap * BN * PITCH + k);
#pragma unroll
            for (int r = 0; r < WM / 16; r++) {
                int pixel = first_pixel + r * 16 + lane % 16;
                int in_window = (pixel / TILE + tap / 3) * WINDOW + pixel % TILE + tap % 3;
                unsigned rows[4];
                load_matrices(rows, stage + in_window * PITCH + lane / 16 * 8 + k);
#pragma unroll
                for (int s = 0; s < WN / 8; s++) {
                    mma(F16(), &sums[r][s * 4], rows, columns + s * 2);
                }
            }
        }
    }
}
// ANCHOR_END: multiply

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    conv_tiles(const Half *x, const Half *w, Half *y, const unsigned *list, const unsigned *counts, const float *scale,
               const float *shift, const Half *image, const float *channels, int of_e, int images, Image size) {
    extern __shared__ __align__(16) Half stages[];
    Epilogue epilogue{scale, shift, nullptr, 1.0f, SILU, {image, channels, size.height * size.width, of_e, 0, of_e}};
    int warp = threadIdx.x / 32, pixel = warp / 2 * WM, column = warp % 2 * WN;
    unsigned parts = size.out_channels / BN, pieces = counts[0] * parts;
    for (unsigned number = blockIdx.x; number < pieces; number += gridDim.x) {
        Piece piece(list[number / parts], number % parts * BN, size);
        float sums[WM / 16][WN / 8 * 4] = {};
        fetch(stages, x, w, piece, 0, size);
        for (int first = 0; first < size.in_channels; first += BK) {
            const Half *stage = stages + first / BK % STAGES * STAGE;
            if (first + BK < size.in_channels) {
                fetch(stages + (first / BK + 1) % STAGES * STAGE, x, w, piece, first + BK, size);
                copy_groups_arrived<1>();
            } else {
                copy_groups_arrived<0>();
            }
            __syncthreads();  // the stage is complete
            multiply(sums, stage, pixel, column);
            __syncthreads();  // all warps are done with it
        }
#pragma unroll
        for (int r = 0; r < WM / 16; r++) {
            PixelPlace place(piece, size, pixel + r * 16, column);
            finish<F16, true>(epilogue, sums[r], place, images * size.height * size.width, size.out_channels);
#pragma unroll
            for (int i = 0; i < WN / 8 * 4; i += 2) {
                if (place.inside(i)) {
                    int2 at = place(i);
                    F16::store_pair(y + (size_t)at.x * size.out_channels + at.y, sums[r][i], sums[r][i + 1]);
                }
            }
        }
    }
}
// ANCHOR_END: kernel
