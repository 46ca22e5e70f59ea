// Max pooling: one thread computes one output, the largest value of its window.
//
// Values outside the image are ignored. A NaN wins over every number, so that it is not hidden.
//
// Limited by memory: a value is read once from memory, and from the caches once per window that contains it.
// run: test layers // trial: max_pool
struct Pool {
    int height, width, out_height, out_width;
    int window, stride, padding;
};

// ANCHOR: kernel
extern "C" __global__ void max_pool(const float *__restrict__ input, float *__restrict__ output, unsigned outputs,
                                    Pool pool) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    int column = i % pool.out_width, row = i / pool.out_width % pool.out_height;
    const float *plane = input + (size_t)(i / pool.out_width / pool.out_height) * pool.height * pool.width;
    int top = row * pool.stride - pool.padding, left = column * pool.stride - pool.padding;
    int bottom = min(top + pool.window, pool.height), right = min(left + pool.window, pool.width);
    float most = __int_as_float(0xff800000);  // −∞
    for (int y = max(top, 0); y < bottom; y++) {
        for (int x = max(left, 0); x < right; x++) {
            float value = plane[y * pool.width + x];
            most = value > most || value != value ? value : most;
        }
    }
    output[i] = most;
}
// ANCHOR_END: kernel
