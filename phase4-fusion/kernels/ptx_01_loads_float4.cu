// y = 2.5·x, 16 bytes per load: CUDA C has a type for it, and the compiler makes one LDG.E.128 of it.
//
// Limited by memory, with a quarter of the instructions of ptx_01_loads_scalar.cu.
// run: ptx
// x and y lie at multiples of 16 bytes. n / 4 + 1 threads: the last one takes the n % 4 values that are left.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) loads(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = reinterpret_cast<const float4 *>(x)[i];
        v = make_float4(2.5f * v.x, 2.5f * v.y, 2.5f * v.z, 2.5f * v.w);
        reinterpret_cast<float4 *>(y)[i] = v;
    } else if (i == n / 4) {
#pragma unroll 1
        for (unsigned k = n / 4 * 4; k < n; k++) {
            y[k] = 2.5f * x[k];
        }
    }
}
// ANCHOR_END: kernel
