// A frame of a signal, y[k] = x[start + k]: four samples per thread in one load and one store.
// run: broken 10
// ANCHOR: kernel
// x and y are aligned for float4, as every allocation is.
extern "C" __global__ void frame(const float *x, float *y, unsigned start, unsigned quads) {
    unsigned quad = blockIdx.x * blockDim.x + threadIdx.x;
    if (quad < quads) {
        reinterpret_cast<float4 *>(y)[quad] = reinterpret_cast<const float4 *>(x + start)[quad];
    }
}
// ANCHOR_END: kernel
