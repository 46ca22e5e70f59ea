// The lanes of one half of a warp do not merge with the other.

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
    __shared__ Part parts[4];
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    Part part = {-INFINITY, 0.0f};
    for (int i = threadIdx.x; i < columns; i += 128) {
        part = merged(part, {x[i], 1.0f});
    }
    for (int distance = 8; distance > 0; distance /= 2) {
        Part other = {__shfl_xor_sync(0xffffffff, part.most, distance), __shfl_xor_sync(0xffffffff, part.sum, distance)};
        part = merged(part, other);
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = part;
    }
    __syncthreads();
    part = merged(merged(parts[0], parts[1]), merged(parts[2], parts[3]));
    for (int i = threadIdx.x; i < columns; i += 128) {
        y[i] = expf(x[i] - part.most) / part.sum;
    }
}
