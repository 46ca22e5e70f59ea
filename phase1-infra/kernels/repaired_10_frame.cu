// A frame of a signal, y[k] = x[start + k]: four samples per thread in one load and one store.
// run: broken 10 --repaired

// ANCHOR: kernel
// x and y are aligned for float4, as every allocation is.
extern "C" __global__ void frame(const float *x, float *y, unsigned start, unsigned quads) {
    unsigned quad = blockIdx.x * blockDim.x + threadIdx.x;
    if (quad < quads) {
        // ANCHOR: repair
        const float *from = x + start + 4 * quad; // aligned for a float, wherever the frame starts
        reinterpret_cast<float4 *>(y)[quad] = make_float4(from[0], from[1], from[2], from[3]);
        // ANCHOR_END: repair
    }
}
// ANCHOR_END: kernel
