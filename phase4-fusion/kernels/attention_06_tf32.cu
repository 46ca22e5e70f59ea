// Attention over f32 whose products are those of tf32: each value is rounded to 11 bits on its way into the tensor cores.
//
// Limited by the tensor cores for heads from 40 values, by exponentials and rounding for smaller ones.
// nvrtc: --gpu-architecture=compute_80 // run: attention // trial: attention
#include "attention_tf32.cuh"

F32_KERNELS(1)
