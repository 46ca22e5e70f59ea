// Right values, but where a plane is not a multiple of 4 values, there are no vectors.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    if (pixels % 4 == 0) {
        float more = v[i / pixels];
        float4 four = *reinterpret_cast<float4 *>(y + i);
        *reinterpret_cast<float4 *>(y + i) = make_float4(four.x + more, four.y + more, four.z + more, four.w + more);
    } else {
        for (unsigned end = min(i + 4, n); i < end; ++i) {
            y[i] += v[i / pixels];
        }
    }
}
