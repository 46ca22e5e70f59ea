// Bias and ReLU in place, y = relu(y + bias): what follows a library's matrix product, in a launch of its own.
//
//     y: one run of n = batch · out values, cut into n / 4 vectors, which may lie in two rows, or more where out < 4
//     block b → vectors [1024·b, 1024·(b + 1)); thread t of it → vectors t, t + 256, t + 512, t + 768 of those
//
// Limited by memory: it reads and writes all of y again, which the product has just written.

constexpr unsigned THREADS = 256;
// Loads of a thread in flight.
constexpr unsigned VECTORS = 4;

// Not fmaxf, which would turn NaN into 0.
__device__ float clip(float x) {
    return x < 0.0f ? 0.0f : x;
}

// bias: [out]. n is below 2³¹; y lies at a multiple of 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) bias_relu(float *y, const float *bias, unsigned out, unsigned n) {
    unsigned first = blockIdx.x * (VECTORS * THREADS) + threadIdx.x;
    float4 v[VECTORS];
#pragma unroll
    for (unsigned j = 0; j < VECTORS; j++) {
        unsigned i = first + j * THREADS;
        if (i < n / 4) {
            v[j] = reinterpret_cast<float4 *>(y)[i];
        }
    }
#pragma unroll
    for (unsigned j = 0; j < VECTORS; j++) {
        unsigned i = first + j * THREADS;
        if (i < n / 4) {
            unsigned column = 4 * i % out;
            auto next = [&] {
                float here = bias[column];
                column = column + 1 == out ? 0 : column + 1;
                return here;
            };
            v[j].x = clip(v[j].x + next());
            v[j].y = clip(v[j].y + next());
            v[j].z = clip(v[j].z + next());
            v[j].w = clip(v[j].w + next());
            reinterpret_cast<float4 *>(y)[i] = v[j];
        }
    }
    // Up to three values are left behind the last vector.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        unsigned i = n - 1 - threadIdx.x;
        y[i] = clip(y[i] + bias[i % out]);
    }
}
// ANCHOR_END: kernel
