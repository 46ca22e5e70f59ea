// Kernels that several devices run together, handing each other values through memory that all of them reach.

struct Peers {
    float *value[4];
    unsigned *flag[4];
};

// Each device stores its value, raises its flag, waits for the flags of the others and adds up all values: right.
extern "C" __global__ void exchange(Peers peers, unsigned rank, unsigned ranks, float *sum) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        *peers.value[rank] = 1.5f + rank;
        asm volatile("st.release.sys.global.u32 [%0], 1;" ::"l"(peers.flag[rank]) : "memory");
    }
    if (threadIdx.x == 0) {
        float total = 0;
        for (unsigned peer = 0; peer < ranks; ++peer) {
            unsigned seen;
            do {
                asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(peers.flag[peer]) : "memory");
            } while (seen == 0);
            total += *peers.value[peer];
        }
        sum[blockIdx.x] = total;
    }
}

// The fence and the flags are for one device only.
extern "C" __global__ void exchange_on_one_device(Peers peers, unsigned rank, unsigned ranks, float *sum) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        *peers.value[rank] = 1.5f + rank;
        __threadfence();
        *(volatile unsigned *)peers.flag[rank] = 1;
    }
    if (threadIdx.x == 0) {
        float total = 0;
        for (unsigned peer = 0; peer < ranks; ++peer) {
            while (*(volatile unsigned *)peers.flag[peer] == 0) {
            }
            total += *peers.value[peer];
        }
        sum[blockIdx.x] = total;
    }
}

// The flag is an atomic of device scope: not one for the other devices.
extern "C" __global__ void count_on_one_device(unsigned *count) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
    }
}

// Right for all devices.
extern "C" __global__ void count_on_all(unsigned *count) {
    if (threadIdx.x == 0) {
        atomicAdd_system(count, 1);
    }
}

__device__ unsigned own = 7;

// A module variable is each device's own.
extern "C" __global__ void own_variable(unsigned add, unsigned *out) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        own += add;
        *out = own;
    }
}
