// Attention in f32 on tensor cores: each product is three of tf32, of what rounding keeps of a value and of what it leaves out.
//
// Three times the products of attention_06_tf32.cu, and still faster than f32's own multiply-adds, which tensor cores outdo by 8. Limited
// by the instructions beside them: each thread spends six to twelve on splitting values for every three products of its warp.
// nvrtc: --gpu-architecture=compute_80 // run: attention // trial: attention
#include "attention_tf32.cuh"

F32_KERNELS(2)
