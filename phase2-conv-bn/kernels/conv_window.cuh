// What the steps of implicit GEMM share: where the window under a pixel lies, and how four neighbouring outputs are stored.
// run: conv // trial: conv
#pragma once

#include "conv.cuh"

// From the beginning of the input to the corner of the window under pixel `at` of image `n`; in the padding it lies outside.
__device__ inline long long window_corner(const Conv2d &conv, int n, int at, int group) {
    int top = at / conv.out_width * conv.stride_y - conv.padding_y;
    int left = at % conv.out_width * conv.stride_x - conv.padding_x;
    long long channel = (long long)n * conv.channels + group * conv.group_channels;
    return (channel * conv.height + top) * conv.width + left;
}

// Which rows of the window under pixel `at` lie in the image, in bits 0 to 15, and which columns, in bits 16 to 31.
__device__ inline unsigned window_inside(const Conv2d &conv, int at) {
    int top = at / conv.out_width * conv.stride_y - conv.padding_y;
    int left = at % conv.out_width * conv.stride_x - conv.padding_x;
    unsigned inside = 0;
    for (int r = 0; r < conv.window_y; r++) {
        inside |= (unsigned)((unsigned)(top + r * conv.dilation_y) < (unsigned)conv.height) << r;
    }
    for (int s = 0; s < conv.window_x; s++) {
        inside |= (unsigned)((unsigned)(left + s * conv.dilation_x) < (unsigned)conv.width) << (16 + s);
    }
    return inside;
}

// Adds the bias to the sums of output channel `k` of a group at four pixels from `pixel`, a multiple of 4, and stores those
// that exist.
__device__ inline void write(float *output, const float *bias, const Conv2d &conv, int group, int k, int pixel, float4 four) {
    if (k >= conv.group_outputs) {
        return;
    }
    k += group * conv.group_outputs;
    float add = bias ? bias[k] : 0.0f;
    auto place = [&](int pixel) {
        return output + ((long long)(pixel / conv.plane) * conv.out_channels + k) * conv.plane + pixel % conv.plane;
    };
    if (conv.plane % 4 == 0) {  // four pixels lie in one image, at a multiple of 16 bytes
        if (pixel < conv.pixels) {
            *reinterpret_cast<float4 *>(place(pixel)) = make_float4(four.x + add, four.y + add, four.z + add, four.w + add);
        }
        return;
    }
    const float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (pixel + j < conv.pixels) {
            *place(pixel + j) = each[j] + add;
        }
    }
}
