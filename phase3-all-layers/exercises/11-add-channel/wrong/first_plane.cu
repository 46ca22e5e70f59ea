// All four values get what the first one's plane gets.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    float more = v[i / pixels];
    if (i + 4 <= n) {
        float4 four = *reinterpret_cast<float4 *>(y + i);
        *reinterpret_cast<float4 *>(y + i) = make_float4(four.x + more, four.y + more, four.z + more, four.w + more);
    } else {
        for (; i < n; ++i) {
            y[i] += v[i / pixels];
        }
    }
}
