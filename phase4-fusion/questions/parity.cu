// Threads of a block take two ways, by lane or by warp.

extern "C" __global__ void by_lane(float *x, float *y) {
    unsigned i = threadIdx.x;
    if (i % 2 == 0) {
        x[i] = sqrtf(x[i]);
    } else {
        y[i] = 1.0f / y[i];
    }
}

extern "C" __global__ void by_warp(float *x, float *y) {
    unsigned i = threadIdx.x;
    if (i / 32 % 2 == 0) {
        x[i] = sqrtf(x[i]);
    } else {
        y[i] = 1.0f / y[i];
    }
}
