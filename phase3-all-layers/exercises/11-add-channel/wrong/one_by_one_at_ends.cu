// Right values, but a vector in which a plane ends is read and written value by value.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    unsigned plane = i / pixels, end = (plane + 1) * pixels;  // of the first value; where its plane ends
    if (i + 4 <= n && i + 4 <= end) {
        float more = v[plane];
        float4 four = *reinterpret_cast<float4 *>(y + i);
        *reinterpret_cast<float4 *>(y + i) = make_float4(four.x + more, four.y + more, four.z + more, four.w + more);
    } else {
        for (unsigned last = min(i + 4, n); i < last; ++i) {
            y[i] += v[i / pixels];
        }
    }
}
