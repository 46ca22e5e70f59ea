// A convolution 3 × 3 that reads from two images: the first channels from one of half the sides, upsampled (nearest), the others from a
// skip connection. Neither the upsampled image nor the joined one is ever in memory.
//
//     pixel (2a + p, 2b + q) of the output, tap (r, s)
//         upsampled   reads (a + ⌊(p + r − 1) / 2⌋, b + ⌊(q + s − 1) / 2⌋) of the small image: for one p and q, a window at every pixel
//         skip        reads (2a + p + r − 1, 2b + q + s − 1): a window at every second pixel
//
// So a tile has pixels of one parity (p, q), and TMA gathers both: it walks over the small image with stride 1, over the skip
// connection with stride 2. A step along K is one tap and BK channels of one of the two.
//
//     A    4 parities × ⌈N · H/2 · W/2⌉ rows, each parity filled up to whole tiles      B [K, 3 · 3 · (C1 + C2)]
//
// Limited as the convolution is. The pixels of a tile are not neighbours in y, so each thread stores its own sums.
// nvrtc: --gpu-architecture=compute_90a // run: test fusion // trial: fusion
#include "gemm_hopper.cuh"
#include "shapes.cuh"
#include "shapes_160.cuh"

// As the host has it: `src/fusion/upsample.rs`.
struct Sizes {
    int half_y, half_x;  // H / 2, W / 2: sides of the small image
    int of_parity;       // pixels of a parity: N · H/2 · W/2
    int padded;          // the same up to whole tiles
    int first_blocks, blocks;  // steps of a tap: of the small image, and of both
};

// ANCHOR: source
// The pixels of a tile: of which parity, and where they begin in the small image.
struct Pixel {
    int image, y, x, p, q;
};

__device__ inline Pixel pixel_of(const Sizes &sizes, int row) {
    int parity = row / sizes.padded, at = row - parity * sizes.padded, line = at / sizes.half_x, image = line / sizes.half_y;
    return {image, line - image * sizes.half_y, at - line * sizes.half_x, parity / 2, parity % 2};
}

// Where tiles of A come from.
struct TwoImages {
    const TensorMap &skip;
    const Sizes &sizes;

    __device__ Pixel start(int first) const { return pixel_of(sizes, first); }

    template <bool MULTICAST>
    __device__ void copy(const TensorMap &small, unsigned blocks, unsigned to, const Pixel &at, int step, int columns, unsigned barrier) const {
        int tap = step / sizes.blocks, block = step - tap * sizes.blocks, r = tap / 3, s = tap - r * 3;
        if (block < sizes.first_blocks) {
            copy_pixels_to<MULTICAST>(blocks, to, small, block * columns, at.x - 1, at.y - 1, at.image, (at.q + s + 1) / 2,
                                      (at.p + r + 1) / 2, barrier);
        } else {
            copy_pixels_to<MULTICAST>(blocks, to, skip, (block - sizes.first_blocks) * columns, 2 * at.x - 1, 2 * at.y - 1, at.image,
                                      at.q + s, at.p + r, barrier);
        }
    }
};
// ANCHOR_END: source

// ANCHOR: store
// y [N, H, W, K], where rows of one parity go to every second pixel.
template <class Value>
struct Interleaved {
    Value *y;
    const Sizes &sizes;
    // The pixel of a row of A, or −1 if it is there to fill a tile up.
    __device__ int pixel(int row) const {
        Pixel at = pixel_of(sizes, row);
        bool inside = row < 4 * sizes.padded && row % sizes.padded < sizes.of_parity;
        return inside ? ((at.image * sizes.half_y + at.y) * 2 + at.p) * 2 * sizes.half_x + 2 * at.x + at.q : -1;
    }
};

template <class Value>
__device__ inline void prefetch_map(const Interleaved<Value> &) {}

// In place of the store by TMA in gemm_hopper.cuh.
template <class Shape, class Value, class Sum>
__device__ inline void store(const Interleaved<Value> &y, const Epilogue &epilogue, Sum (&sums)[Geometry<Shape>::PARTS][Shape::BN / 2],
                             unsigned, int, int first_row, int first_column, int, int n) {
    using G = Geometry<Shape>;
    using Out = typename G::Out;
    int warp = threadIdx.x % GROUP_THREADS / 32, lane = threadIdx.x % 32, column = first_column + lane % 4 * 2;
#pragma unroll
    for (int part = 0; part < G::PARTS; part++) {
        int row = first_row + part * 64 + warp * 16 + lane / 4, pixels[2] = {y.pixel(row), y.pixel(row + 8)};
        auto place = [&](int i) { return make_int2(max(pixels[i / 2 % 2], 0), column + i / 4 * 8); };
        finish<Out, true>(epilogue, sums[part], place, 4 * y.sizes.of_parity, n);
#pragma unroll
        for (int i = 0; i < Shape::BN / 2; i += 2) {
            if (pixels[i / 2 % 2] >= 0 && column + i / 4 * 8 < n) {  // n is even
                Out::store_pair(y.y + (size_t)pixels[i / 2 % 2] * n + column + i / 4 * 8, sums[part][i], sums[part][i + 1]);
            }
        }
    }
}
// ANCHOR_END: store

// `small` and `skip` in im2col mode, `w` as [K, 9 · (C1 + C2)]; m is 4 · padded.
#define UPSAMPLE_KERNEL(name, SHAPE)                                                                                  \
    extern "C" __global__ void __launch_bounds__(Geometry<SHAPE>::THREADS, 1)                                         \
        name(const __grid_constant__ TensorMap small, const __grid_constant__ TensorMap skip,                         \
             const __grid_constant__ TensorMap w, Geometry<SHAPE>::Out::Value *y, const float *scale,                 \
             const float *shift, const Geometry<SHAPE>::Out::Value *residual, int m, int n, int k, float alpha,       \
             int activation, const __grid_constant__ Sizes sizes) {                                                   \
        Epilogue epilogue{scale, shift, residual, alpha, activation};                                                 \
        gemm<SHAPE, TRANSPOSED>(small, w, Interleaved<Geometry<SHAPE>::Out::Value>{y, sizes}, m, n, k, epilogue,      \
                                TwoImages{skip, sizes});                                                              \
    }

UPSAMPLE_KERNEL(upsample_f16_256x160, Large160<F16>)
UPSAMPLE_KERNEL(upsample_f16_128x160, Square160<F16>)
UPSAMPLE_KERNEL(upsample_f16_128x128, Square<F16>)
UPSAMPLE_KERNEL(upsample_f16_64x64, Small<F16>)
UPSAMPLE_KERNEL(upsample_tf32_256x160, Large160<TF32>)
UPSAMPLE_KERNEL(upsample_tf32_128x160, Square160<TF32>)
UPSAMPLE_KERNEL(upsample_tf32_128x128, Square<TF32>)
UPSAMPLE_KERNEL(upsample_tf32_64x64, Small<TF32>)
