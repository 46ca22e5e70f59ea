// The values after the last whole vector are left as they are.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    unsigned plane = i / pixels, end = (plane + 1) * pixels;  // of the first value; where its plane ends
    float more = v[plane];
    auto add = [&](float &value, unsigned at) {
        if (at == end) {
            more = v[++plane];
            end += pixels;
        }
        value += more;
    };
    if (i + 4 <= n) {
        float4 four = *reinterpret_cast<float4 *>(y + i);
        add(four.x, i);
        add(four.y, i + 1);
        add(four.z, i + 2);
        add(four.w, i + 3);
        *reinterpret_cast<float4 *>(y + i) = four;
    }
}
