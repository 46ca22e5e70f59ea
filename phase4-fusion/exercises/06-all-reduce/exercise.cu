// Every rank's result is the sum of all ranks' arrays, added in the order of the ranks, so that all have the same bits.
//
// in and out are [ranks][n], and stand for the memory of that many GPUs; n is a multiple of 4. One thread for every four neighbouring
// values, in blocks of 256; blockIdx.y is the rank.

extern "C" __global__ void all_reduce(const float *in, float *out, unsigned ranks, unsigned n) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = n / 4, rank = blockIdx.y;
    if (quad >= quads) {
        return;
    }
    // Your code: add the arrays of all ranks in the order of the ranks.
    reinterpret_cast<float4 *>(out)[rank * quads + quad] = reinterpret_cast<const float4 *>(in)[rank * quads + quad];
}
