// A small autoencoder in one launch: latent = max(x · encode, 0), y = latent · decode. x and y are [inputs][64], encode [64][32], decode
// [32][64], all row-major in f32. Two blocks of 64 threads take one input after the other; their weights stay in shared memory.

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
        // Your code: both layers, with the latent values in `latent`. Where does the block have to meet?
        y[input * 64 + thread] = values[thread];
    }
}
