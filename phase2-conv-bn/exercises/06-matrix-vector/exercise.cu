// A linear layer with ReLU, for one vector: y[row] = max(0, bias[row] + Σ weight[row][i] · x[i]), with weight [outputs, inputs]
// row-major.
//
// Blocks have 256 threads, which are eight warps. There are enough blocks for one warp per output.

extern "C" __global__ void linear(const float *weight, const float *x, const float *bias, float *y, unsigned inputs,
                                  unsigned outputs) {
    // Your code: which row does a warp take, and which of its values does a lane? When are bias and ReLU applied?
}
