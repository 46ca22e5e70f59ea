// What the arithmetic units can do: multiply-adds in registers and nothing else.
//
// CHAINS independent chains a thread: an addition needs the one before it, so a single chain would wait for its own results.
// Limited by: the issue of FFMA instructions.
// run: gemm // trial: none, it measures a rate, and the simulator has no clock

#define CHAINS 16
#define UNROLLED 8

// out[i] for each thread i: chain c begins at i + c and goes x → x·scale + shift, rounds · UNROLLED times; their sum.
extern "C" __global__ void fma_peak(float *__restrict__ out, float scale, float shift, unsigned rounds)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float x[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain)
        x[chain] = static_cast<float>(i + chain);
    for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
        for (int step = 0; step < UNROLLED; ++step)
#pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain)
                x[chain] = fmaf(x[chain], scale, shift);
    }
    float sum = 0.0f;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain)
        sum += x[chain];
    out[i] = sum;
}
