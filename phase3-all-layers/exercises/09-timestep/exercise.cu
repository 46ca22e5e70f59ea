// The embedding of each step s: cos(s · f) for every frequency f, then sin(s · f) for every frequency.
//
//     f[j] = 10000^(−j / half) for j < half        y: [batch][2 · half], half cosines and half sines in a row
//
// One thread per step and frequency. Blocks have 128 threads. Steps are whole numbers from 0 to 999, and a result may be off by 2⁻²⁴.

extern "C" __global__ void timestep(const float *steps, float *y, int batch, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * half) {
        return;
    }
    int row = i / half, j = i % half;
    const double RATE = -9.210340371976184;  // −ln(10000)
    // Your code: the angle, its cosine and its sine. In which type?
    y[row * 2 * half + j] = steps[row];
}
