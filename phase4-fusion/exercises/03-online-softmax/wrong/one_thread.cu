// Right values, but one thread merges the parts of all.

// A maximum, and the sum of exp(x − maximum).
struct Part {
    float most, sum;
};

__device__ Part merged(Part a, Part b) {
    float most = fmaxf(a.most, b.most);
    if (most == -INFINITY) {
        return {most, 0.0f}; // neither has a value
    }
    return {most, a.sum * expf(a.most - most) + b.sum * expf(b.most - most)};
}

extern "C" __global__ void softmax(const float *x, float *y, int columns) {
    __shared__ Part parts[128];
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    Part part = {-INFINITY, 0.0f};
    for (int i = threadIdx.x; i < columns; i += 128) {
        part = merged(part, {x[i], 1.0f});
    }
    parts[threadIdx.x] = part;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 128; ++i) {
            parts[0] = merged(parts[0], parts[i]);
        }
    }
    __syncthreads();
    part = parts[0];
    for (int i = threadIdx.x; i < columns; i += 128) {
        y[i] = expf(x[i] - part.most) / part.sum;
    }
}
