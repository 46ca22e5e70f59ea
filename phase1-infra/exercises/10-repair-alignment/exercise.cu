// A frame of a signal, y[k] = x[start + k] for k < n; n is a multiple of 4, start is any number.
//
// Each block has 256 threads and copies 1024 samples.
//
// Something is wrong. `check` says what it sees; put it right, and look at the sectors.

extern "C" __global__ void frame(const float *x, float *y, unsigned start, unsigned n) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x;
    if (4 * quad < n) {
        reinterpret_cast<float4 *>(y)[quad] = reinterpret_cast<const float4 *>(x + start)[quad];
    }
}
