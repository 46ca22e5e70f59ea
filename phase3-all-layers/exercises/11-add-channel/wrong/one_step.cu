// A vector is taken to lie in two planes at most. Planes of one or two pixels are forgotten.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    unsigned plane = i / pixels, end = (plane + 1) * pixels;  // of the first value; where its plane ends
    float more = v[plane];
    if (i + 4 <= n) {
        float next = end < i + 4 ? v[plane + 1] : more;
        float4 four = *reinterpret_cast<float4 *>(y + i);
        four.x += more;
        four.y += i + 1 < end ? more : next;
        four.z += i + 2 < end ? more : next;
        four.w += i + 3 < end ? more : next;
        *reinterpret_cast<float4 *>(y + i) = four;
    } else {
        for (; i < n; ++i) {
            y[i] += v[i / pixels];
        }
    }
}
