// The first copy is not committed by itself: it is in the group of the second.

__device__ void copy16(float *to, const float *from) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
}

__device__ void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> __device__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

extern "C" __global__ void row_sums(const float *x, float *sums, unsigned tiles) {
    __shared__ float ring[2][512];
    __shared__ float parts[4];
    x += blockIdx.x * tiles * 512;
    unsigned thread = threadIdx.x;
    copy16(&ring[0][4 * thread], x + 4 * thread);
    float sum = 0.0f;
    for (unsigned tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) {
            copy16(&ring[(tile + 1) % 2][4 * thread], x + (tile + 1) * 512 + 4 * thread);
        }
        commit(); // an empty group after the last tile, so that the count below holds
        wait<1>();
        __syncthreads();
        for (unsigned i = thread; i < 512; i += 128) {
            sum += ring[tile % 2][i];
        }
        __syncthreads();
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
