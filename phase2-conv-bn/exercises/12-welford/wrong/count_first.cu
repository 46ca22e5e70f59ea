// The count is merged first, so the other terms take the new one for the old.

struct Moments {
    float count, mean, m2;  // m2 = Σ (x − mean)²
};

__device__ Moments merge(Moments a, Moments b) {
    if (b.count == 0.0f) {
        return a;  // 0 / 0 where a is empty too
    }
    a.count += b.count;
    float delta = b.mean - a.mean, part = b.count / a.count;
    a.mean += delta * part;
    a.m2 += b.m2 + delta * delta * a.count * part;
    return a;
}

extern "C" __global__ void statistics(const float *x, float *mean, float *variance, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    Moments own = {0.0f, 0.0f, 0.0f};
    for (unsigned column = lane; column < columns; column += 32) {
        own = merge(own, {1.0f, x[row * columns + column], 0.0f});
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        Moments other;
        other.count = __shfl_down_sync(0xffffffff, own.count, distance);
        other.mean = __shfl_down_sync(0xffffffff, own.mean, distance);
        other.m2 = __shfl_down_sync(0xffffffff, own.m2, distance);
        own = merge(own, other);
    }
    if (lane == 0) {
        mean[row] = own.mean;
        variance[row] = own.m2 / own.count;
    }
}
