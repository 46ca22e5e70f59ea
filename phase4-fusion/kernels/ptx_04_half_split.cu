// The series, eight values per thread, each by a multiply-add of its own in the source. The two of a register take the same
// steps, and ptxas sees it: its machine code is that of ptx_04_half_ptx.cu.
//
// Limited by multiply-adds, of which there are half as many as in ptx_04_half_scalar.cu.
// run: ptx

#include "ptx_04_half.cuh"

// ANCHOR: step
__device__ __half2 step(__half2 p, __half2 x) {
    __half one = __low2half(reinterpret_cast<const __half2 &>(ONES));
    __half low = __hfma(__low2half(p), __low2half(x), one);
    __half high = __hfma(__high2half(p), __high2half(x), one);
    return __halves2half2(low, high);
}
// ANCHOR_END: step
