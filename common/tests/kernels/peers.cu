// Kernels that reach the memory of other devices.

struct Peers {
    float *at[4];
};

struct Flags {
    unsigned *at[4];
};

// out[i] = own[i] + other[i]
extern "C" __global__ void add_peer(const float *own, const float *other, float *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = own[i] + other[i];
    }
}

// Writes `value` to each word of another device's memory.
extern "C" __global__ void store_peer(float *other, float value, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        other[i] = value;
    }
}

// One block of each device: stores rank + 1 everywhere in its own memory, waits for all others, adds up everyone's.
extern "C" __global__ void sum_all(Peers values, Flags flags, float *sum, unsigned n, unsigned rank, unsigned ranks) {
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        values.at[rank][i] = rank + 1.0f;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        for (unsigned peer = 0; peer < ranks; ++peer) {
            atomicAdd_system(flags.at[peer], 1);
        }
        while (atomicAdd_system(flags.at[rank], 0) < ranks) {
        }
        __threadfence_system();
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        float total = 0;
        for (unsigned peer = 0; peer < ranks; ++peer) {
            total += values.at[peer][i];
        }
        sum[i] = total;
    }
}
