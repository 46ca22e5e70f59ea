// A warp's load that does not begin at a sector.

extern "C" __global__ void offset_load(const float *x, float *y) {
    y[threadIdx.x] = x[threadIdx.x + 1];
}
