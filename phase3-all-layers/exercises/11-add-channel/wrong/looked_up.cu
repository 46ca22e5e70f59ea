// Right values, but v is read once per value, although almost always all four need the same.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    if (i + 4 <= n) {
        float4 four = *reinterpret_cast<float4 *>(y + i);
        four.x += v[i / pixels];
        four.y += v[(i + 1) / pixels];
        four.z += v[(i + 2) / pixels];
        four.w += v[(i + 3) / pixels];
        *reinterpret_cast<float4 *>(y + i) = four;
    } else {
        for (; i < n; ++i) {
            y[i] += v[i / pixels];
        }
    }
}
