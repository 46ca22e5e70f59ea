// A convolution as a product, without the matrix: TMA gathers its rows. A row of A is a pixel of the output, and its columns are
// what the filter meets there: [R, S, C], so a step along K is one tap of the filter and BK channels.
//
//     A [N · P · Q, R · S · C]   the copy in im2col mode walks over BM pixels, shifted by the tap; the padding reads as zero
//     B [K, R · S · C]           the filters as they lie, K × R × S × C
//     C [N · P · Q, K]           the output as it lies, N × P × Q × K
//
// PTX ISA, "Tensor im2col mode".
// run: conv
#pragma once
#include "gemm_hopper.cuh"

// Pixels of an image [N, H, W, C] under a filter. As the host has it: `src/conv/mod.rs`.
struct Window {
    int outputs_y, outputs_x;  // P, Q
    int stride, padding;
    int filter_x;        // S
    int channel_blocks;  // steps of a tap

    struct Pixel {
        int image, y, x;
    };

    __device__ Pixel start(int first) const {
        int row = first / outputs_x, image = row / outputs_y;
        return {image, (row - image * outputs_y) * stride - padding, (first - row * outputs_x) * stride - padding};
    }

    template <bool MULTICAST>
    __device__ void copy(const TensorMap &a, unsigned blocks, unsigned to, Pixel at, int step, int columns, unsigned barrier) const {
        int tap = step / channel_blocks, y = tap / filter_x;
        copy_pixels_to<MULTICAST>(blocks, to, a, (step - tap * channel_blocks) * columns, at.x, at.y, at.image, tap - y * filter_x, y, barrier);
    }
};
