// Right values, but each thread copies 16 bytes by `cp.async`, and all wait at a barrier of the block.

__device__ unsigned shared_address(const void *at) {
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
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

extern "C" __global__ void row_sums(const float *x, float *sums, unsigned tiles) {
    __shared__ alignas(16) float tile[512];
    __shared__ unsigned long long arrived;
    __shared__ float parts[4];
    x += blockIdx.x * tiles * 512;
    unsigned thread = threadIdx.x;
    if (thread == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float sum = 0.0f;
    for (unsigned k = 0; k < tiles; ++k) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         shared_address(tile + 4 * thread)),
                     "l"(x + k * 512 + 4 * thread)
                     : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        for (unsigned i = thread; i < 512; i += 128) {
            sum += tile[i];
        }
        __syncthreads(); // the tile has been read, and may be overwritten
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    if (thread % 32 == 0) {
        parts[thread / 32] = sum;
    }
    __syncthreads();
    if (thread == 0) {
        sums[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
    }
}
