// Applies the activation to the output.

extern "C" __global__ void autoencode(const float *x, const float *encode, const float *decode, float *y, unsigned inputs) {
    __shared__ float encoding[64][32], decoding[32][64];
    __shared__ float values[64], latent[32];
    unsigned thread = threadIdx.x;
    for (unsigned i = thread; i < 64 * 32; i += 64) {
        encoding[i / 32][i % 32] = encode[i];
        decoding[i / 64][i % 64] = decode[i];
    }
    for (unsigned input = blockIdx.x; input < inputs; input += gridDim.x) {
        values[thread] = x[input * 64 + thread];
        __syncthreads(); // the input and, the first time, the weights are there
        if (thread < 32) {
            float sum = 0.0f;
            for (unsigned i = 0; i < 64; ++i) {
                sum += values[i] * encoding[i][thread];
            }
            latent[thread] = sum;
        }
        __syncthreads(); // all latent values are there
        float sum = 0.0f;
        for (unsigned i = 0; i < 32; ++i) {
            sum += latent[i] * decoding[i][thread];
        }
        y[input * 64 + thread] = fmaxf(sum, 0.0f);
    }
}
