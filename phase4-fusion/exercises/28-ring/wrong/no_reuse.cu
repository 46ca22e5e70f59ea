// No stage is used twice: the ring is as long as a row of 16 tiles, and nothing need be empty.

__device__ unsigned shared_address(const void *at) {
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ void init(unsigned long long *barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ void arrive(unsigned long long *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of that parity is over.
__device__ void wait(unsigned long long *barrier, unsigned parity) {
    unsigned done = 0;
    while (!done) {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    }
}

extern "C" __global__ void reverse(const float *x, float *y, unsigned tiles) {
    __shared__ float ring[16][96];
    __shared__ unsigned long long full[16];
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < 16; ++stage) {
            init(&full[stage], 32);
        }
    }
    __syncthreads();
    x += blockIdx.x * tiles * 96;
    y += blockIdx.x * tiles * 96;
    if (threadIdx.x < 32) { // the producer
        for (unsigned tile = 0; tile < tiles; ++tile) {
            for (unsigned i = threadIdx.x; i < 96; i += 32) {
                ring[tile][i] = x[tile * 96 + i];
            }
            arrive(&full[tile]);
        }
    } else { // the consumers
        unsigned thread = threadIdx.x - 32;
        for (unsigned tile = 0; tile < tiles; ++tile) {
            wait(&full[tile], 0);
            y[tile * 96 + thread] = ring[tile][95 - thread];
        }
    }
}
