// Kernels of convolutions by shape: y = epilogue(x * w) with
//
//     x [N, H, W, C]     w [K, R, S, C]     y [N, P, Q, K], channels last
//
// `a` is x in im2col mode, `b` is w as [K, R · S · C], and `c` is y as [N · P · Q, K]: a tensor map, or the memory itself if slices
// share a tile. C is a multiple of BK channels, and the scale, the shift and the residual are by output channel, as BatchNorm and
// a skip connection have them. What is added after the activation is another image, or a value per image and channel.
// run: conv
#pragma once
#include "conv_hopper.cuh"

template <class Shape>
using Output = typename Geometry<Shape>::Out::Value;

#define CONV_KERNEL_TO(PLACE, name, ...)                                                                              \
    extern "C" __global__ void __cluster_dims__(Geometry<__VA_ARGS__>::CLUSTER, 1, 1)                                 \
        __launch_bounds__(Geometry<__VA_ARGS__>::THREADS, 1)                                                          \
            name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, PLACE c,                   \
                 const float *scale, const float *shift, const Output<__VA_ARGS__> *residual, int m, int n, int k,    \
                 float alpha, int activation, Window window, const Output<__VA_ARGS__> *image,                        \
                 const float *channels, int pixels, int of_e, int first, int pitch) {                                 \
        Epilogue epilogue{scale, shift, residual, alpha, activation, {image, channels, pixels, of_e, first, pitch}};  \
        gemm<__VA_ARGS__, TRANSPOSED>(a, b, c, m, n, k, epilogue, window);                                            \
    }
#define CONV_KERNEL(name, ...) CONV_KERNEL_TO(const __grid_constant__ TensorMap, name, __VA_ARGS__)
#define SLICED_KERNEL(name, ...) CONV_KERNEL_TO(Output<__VA_ARGS__> *, name, __VA_ARGS__)
