// Convolution as a matrix product: the input is written out as a matrix with a column for each window, and a GEMM does the
// rest.
//
//     output [K, N·P·Q] = weight [K, C·R·S] · columns [C·R·S, N·P·Q]        each group with its rows of both
//
// One product over all images rather than one per image: a plane of 7 × 7 fills half a tile, 32 of them fill many. That
// makes the rows of the product [N·P·Q] where the output has [N, K, P, Q], so the product writes to the place of each pixel.
//
// Limited by memory: an input value is written R·S times (a ninefold matrix for 3 × 3) and read back, before the first
// multiply-add.
// nvrtc: --gpu-architecture=compute_80 // run: conv // trial: conv
#include "conv.cuh"
#include "gemm_tile.cuh"

// ANCHOR: kernel
// Threads along x are pixels, so that a warp writes neighbours; blocks along y share out the rows.
extern "C" __global__ void im2col(const float *__restrict__ input, float *__restrict__ columns, Conv2d conv) {
    unsigned pixel = blockIdx.x * blockDim.x + threadIdx.x;
    if (pixel >= (unsigned)conv.pixels) {
        return;
    }
    int x = pixel % conv.out_width;
    int y = pixel / conv.out_width % conv.out_height;
    const float *image = input + pixel / conv.plane * conv.channels * conv.height * conv.width;
    int window = conv.window_y * conv.window_x, rows = conv.groups * conv.taps;
    for (int i = blockIdx.y; i < rows; i += gridDim.y) {
        int c = i / window;
        int row = y * conv.stride_y - conv.padding_y + i % window / conv.window_x * conv.dilation_y;
        int column = x * conv.stride_x - conv.padding_x + i % conv.window_x * conv.dilation_x;
        bool inside = (unsigned)row < (unsigned)conv.height && (unsigned)column < (unsigned)conv.width;
        columns[(size_t)i * conv.pixels + pixel] = inside ? image[(c * conv.height + row) * conv.width + column] : 0.0f;
    }
}

// Blocks along y are groups.
template <class Tile>
__device__ void multiply(const float *weight, const float *columns, const float *bias, float *output, Conv2d conv) {
    extern __shared__ float4 shared[];
    int group = blockIdx.y, first_k = group * conv.group_outputs;
    int first_row, first_pixel;
    place_of_tile<Tile>(blockIdx.x, conv.group_outputs, conv.pixels, first_row, first_pixel);
    Tile tile;
    tile.multiply(reinterpret_cast<float *>(shared), weight + first_k * conv.taps,
                  columns + (size_t)group * conv.taps * conv.pixels, conv.group_outputs, conv.pixels, conv.taps, first_row,
                  first_pixel, 0, steps_along<Tile>(conv.taps));
#pragma unroll
    for (int g = 0; g < Tile::GROUPS; g++) {
        int row = first_row + Tile::row(g), pixel = first_pixel + Tile::column(g);
        if (row >= conv.group_outputs || pixel >= conv.pixels) {
            continue;
        }
        int k = first_k + row;
        float b = bias_at(bias, k);
        float4 four = tile.four(g);
        const float sums[4] = {four.x + b, four.y + b, four.z + b, four.w + b};
        if (conv.plane % 4 == 0) {  // four pixels lie in one image, at a multiple of 16 bytes
            float *to = output + (pixel / conv.plane * conv.out_channels + k) * conv.plane + pixel % conv.plane;
            *reinterpret_cast<float4 *>(to) = make_float4(sums[0], sums[1], sums[2], sums[3]);
            continue;
        }
#pragma unroll
        for (int s = 0; s < 4; s++) {
            int at = pixel + s;
            if (at < conv.pixels) {
                output[(at / conv.plane * conv.out_channels + k) * conv.plane + at % conv.plane] = sums[s];
            }
        }
    }
}
// ANCHOR_END: kernel

#define MULTIPLY(name, SHAPE, IS_WHOLE)                                                                                 \
    extern "C" __global__ void __launch_bounds__(Geometry<SHAPE>::THREADS)                                              \
        name(const float *__restrict__ weight, const float *__restrict__ columns, const float *__restrict__ bias,      \
             float *__restrict__ output, Conv2d conv) {                                                                 \
        multiply<Tile<SHAPE, ROW_MAJOR, IS_WHOLE>>(weight, columns, bias, output, conv);                               \
    }

// Tiles as in step 18 of the GEMM ladder: for products of whole tiles, and for any.
struct Whole {
    static constexpr int BM = 64, BN = 128;  // output channels and pixels per block
    static constexpr int BK = 16;            // taps per step
    static constexpr int WM = 32, WN = 64;   // output channels and pixels per warp
    static constexpr int SLICES = 1, STAGES = 4;
};
struct Any {
    static constexpr int BM = 32, BN = 64;
    static constexpr int BK = 32;
    static constexpr int WM = 16, WN = 32;
    static constexpr int SLICES = 1, STAGES = 4;
};
MULTIPLY(im2col_multiply_whole, Whole, true)
MULTIPLY(im2col_multiply_any, Any, false)
