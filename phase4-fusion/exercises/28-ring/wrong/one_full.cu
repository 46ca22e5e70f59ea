// One barrier says of both stages that they are full: it goes through two phases before a consumer has seen the first.

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
    __shared__ float ring[2][96];
    __shared__ unsigned long long full[2], empty[2];
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < 2; ++stage) {
            init(&full[stage], 32);
            init(&empty[stage], 96);
        }
    }
    __syncthreads();
    x += blockIdx.x * tiles * 96;
    y += blockIdx.x * tiles * 96;
    if (threadIdx.x < 32) { // the producer
        for (unsigned tile = 0; tile < tiles; ++tile) {
            unsigned stage = tile % 2, turn = tile / 2;
            wait(&empty[stage], (turn + 1) % 2); // in the first turn the phase before the first: over
            for (unsigned i = threadIdx.x; i < 96; i += 32) {
                ring[stage][i] = x[tile * 96 + i];
            }
            arrive(&full[0]);
        }
    } else { // the consumers
        unsigned thread = threadIdx.x - 32;
        for (unsigned tile = 0; tile < tiles; ++tile) {
            unsigned stage = tile % 2, turn = tile / 2;
            wait(&full[0], tile % 2);
            y[tile * 96 + thread] = ring[stage][95 - thread];
            arrive(&empty[stage]);
        }
    }
}
