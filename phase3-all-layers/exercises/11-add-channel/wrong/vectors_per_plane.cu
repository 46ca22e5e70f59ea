// A plane is taken to begin at a whole vector, as if each had its own: the vectors do not lie where the planes do.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    unsigned per = (pixels + 3) / 4, plane = i / 4 / per, end = (plane + 1) * pixels;  // vectors of a plane; where it ends
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
    } else {
        for (; i < n; ++i) {
            add(y[i], i);
        }
    }
}
