// A program of the runtime API, compiled by nvcc in the tests: each line of its output is one part of the API.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cooperative_groups.h>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                   \
    do {                                                                                                              \
        cudaError_t error = (call);                                                                                   \
        if (error != cudaSuccess) {                                                                                   \
            printf("line %d: %s: %s\n", __LINE__, cudaGetErrorName(error), cudaGetErrorString(error));                \
            exit(3);                                                                                                  \
        }                                                                                                             \
    } while (0)

const int N = 1000; // not a multiple of a block
const int BYTES = N * sizeof(float);

__constant__ float factors[2];
__device__ int launches;
__managed__ int managed_sum = 40;

template <class T> __global__ void scale(const T *in, T *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = factors[i % 2] * in[i];
    }
    if (i == 0) {
        atomicAdd(&launches, 1);
    }
}

__global__ void add_one(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] += 1.0f;
    }
}

__global__ void sum_into_managed(const int *values, int n) {
    if (threadIdx.x < n) {
        atomicAdd(&managed_sum, values[threadIdx.x]);
    }
}

// Each block waits for all others before it reads what its neighbour wrote.
__global__ void pass_on(int *values) {
    values[blockIdx.x] = blockIdx.x;
    cooperative_groups::this_grid().sync();
    int neighbour = values[(blockIdx.x + 1) % gridDim.x];
    cooperative_groups::this_grid().sync();
    values[blockIdx.x] = neighbour;
}

// Reads a texture between texels, and writes a surface.
__global__ void halve(cudaTextureObject_t in, cudaSurfaceObject_t out, int width, int height) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < width && y < height) {
        float between = tex2D<float>(in, x + 1.0f, y + 0.5f); // half of this texel, half of the next
        surf2Dwrite(between, out, x * sizeof(float), y);
    }
}

static bool scaled(const float *out, float even, float odd) {
    for (int i = 0; i < N; i++) {
        if (!(out[i] == i * (i % 2 ? odd : even))) { // false of NaN
            printf("value %d is %f\n", i, out[i]);
            return false;
        }
    }
    return true;
}

int main() {
    std::vector<float> in(N), out(N, NAN);
    for (int i = 0; i < N; i++) {
        in[i] = i;
    }
    dim3 grid((N + 255) / 256), block(256);

    // Copies, symbols, a launch.
    float *a, *b;
    CHECK(cudaMalloc(&a, BYTES));
    CHECK(cudaMalloc(&b, BYTES));
    float host_factors[] = {2.0f, 3.0f};
    CHECK(cudaMemcpyToSymbol(factors, &host_factors[1], 4, 4));
    CHECK(cudaMemcpyToSymbol(factors, host_factors, 4));
    CHECK(cudaMemcpy(a, in.data(), BYTES, cudaMemcpyHostToDevice));
    scale<<<grid, block>>>(a, b, N);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out.data(), b, BYTES, cudaMemcpyDefault));
    int count = -1;
    CHECK(cudaMemcpyFromSymbol(&count, launches, sizeof(int)));
    printf("launch %d %d\n", scaled(out.data(), 2, 3), count);

    // Managed variables and memory: the host and kernels use the same bytes.
    int *values;
    CHECK(cudaMallocManaged(&values, 10 * sizeof(int)));
    for (int i = 0; i < 10; i++) {
        values[i] = i;
    }
    managed_sum += 2;
    sum_into_managed<<<1, 32>>>(values, 10);
    CHECK(cudaDeviceSynchronize());
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, values + 3));
    printf("managed %d %d\n", managed_sum, attributes.type == cudaMemoryTypeManaged);

    // Pinned memory, and the program's own once it is registered.
    float *pinned, *device_view;
    CHECK(cudaHostAlloc(&pinned, BYTES, cudaHostAllocMapped));
    std::vector<float> own(in);
    CHECK(cudaHostRegister(own.data() + 1, BYTES - 4, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device_view, own.data() + 1, 0));
    add_one<<<grid, block>>>(device_view, N - 1);
    scale<<<grid, block>>>(a, pinned, N);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaHostUnregister(own.data() + 1));
    printf("host memory %d %g %g\n", scaled(pinned, 2, 3), own[0], own[N - 1]);

    // Rows: the last column of 10 rows of 100, then what is around it.
    std::vector<float> rows(N, 0.0f);
    float *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, 100 * sizeof(float), 10));
    CHECK(cudaMemset2D(pitched, pitch, 0xff, 100 * sizeof(float), 10));
    CHECK(cudaMemcpy2D(pitched + 99, pitch, in.data() + 99, 400, 4, 10, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(rows.data(), 400, pitched, pitch, 400, 10, cudaMemcpyDeviceToHost));
    printf("rows %g %g %d\n", rows[99], rows[999], std::isnan(rows[98]));

    // A capture that forks into a second stream and joins it again.
    cudaStream_t first, second;
    cudaEvent_t fork, join;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDeviceToDevice, first));
    CHECK(cudaEventRecord(fork, first));
    CHECK(cudaStreamWaitEvent(second, fork, 0));
    add_one<<<grid, block, 0, second>>>(b, N);
    CHECK(cudaEventRecord(join, second));
    CHECK(cudaStreamWaitEvent(first, join, 0));
    add_one<<<grid, block, 0, first>>>(b, N);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(first, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaMemset(b, 0, BYTES));
    CHECK(cudaGraphLaunch(executable, first));
    CHECK(cudaGraphLaunch(executable, first));
    CHECK(cudaStreamSynchronize(first));
    CHECK(cudaMemcpy(out.data(), b, BYTES, cudaMemcpyDeviceToHost));
    printf("capture %zu nodes, %g %g\n", nodes, out[0], out[N - 1]);

    // A graph whose nodes are added in another order than they run in.
    cudaGraph_t made;
    cudaGraphNode_t launch, fill;
    CHECK(cudaGraphCreate(&made, 0));
    int n = N;
    void *arguments[] = {&b, &n};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)add_one;
    kernel.gridDim = grid;
    kernel.blockDim = block;
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&launch, made, nullptr, 0, &kernel));
    cudaMemsetParams zeros = {};
    zeros.dst = b;
    zeros.elementSize = 4;
    zeros.width = N;
    zeros.height = 1;
    CHECK(cudaGraphAddMemsetNode(&fill, made, nullptr, 0, &zeros));
    CHECK(cudaGraphAddDependencies(made, &fill, &launch, nullptr, 1));
    cudaGraphExec_t ordered;
    CHECK(cudaGraphInstantiate(&ordered, made, 0));
    CHECK(cudaGraphLaunch(ordered, first));
    CHECK(cudaMemcpy(out.data(), b, BYTES, cudaMemcpyDeviceToHost));
    printf("graph %g %g\n", out[0], out[N - 1]);

    // Blocks that wait for each other.
    int *ring, from_ring[7];
    CHECK(cudaMalloc(&ring, sizeof(from_ring)));
    void *ring_arguments[] = {&ring};
    CHECK(cudaLaunchCooperativeKernel((void *)pass_on, 7, 1, ring_arguments, 0, second));
    CHECK(cudaMemcpy(from_ring, ring, sizeof(from_ring), cudaMemcpyDeviceToHost));
    int blocks = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, pass_on, 1024, 0));
    printf("cooperative %d %d, %d blocks\n", from_ring[0], from_ring[6], blocks);

    cudaStreamAttrValue given = {}, kept = {};
    given.syncPolicy = cudaSyncPolicyYield;
    CHECK(cudaStreamSetAttribute(first, cudaStreamAttributeSynchronizationPolicy, &given));
    CHECK(cudaStreamGetAttribute(first, cudaStreamAttributeSynchronizationPolicy, &kept));
    cudaMemLocation location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool, same;
    CHECK(cudaMemGetDefaultMemPool(&pool, &location, cudaMemAllocationTypePinned));
    CHECK(cudaMemGetMemPool(&same, &location, cudaMemAllocationTypePinned));
    printf("attribute %d, pool %d\n", kept.syncPolicy == cudaSyncPolicyYield, pool == same);

    // Arrays: a texture of one, then one of rows of memory; a surface.
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t source, target;
    CHECK(cudaMallocArray(&source, &format, 10, 7));
    CHECK(cudaMallocArray(&target, &format, 10, 7, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(source, 0, 0, in.data(), 40, 40, 7, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {}, surface_resource = {}, memory = {};
    resource.resType = surface_resource.resType = cudaResourceTypeArray;
    resource.res.array.array = source;
    surface_resource.res.array.array = target;
    memory.resType = cudaResourceTypePitch2D;
    memory.res.pitch2D = {pitched, format, 100, 10, pitch};
    cudaTextureDesc sampling = {};
    sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
    sampling.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t texture, memory_texture;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
    CHECK(cudaCreateTextureObject(&memory_texture, &memory, &sampling, nullptr));
    CHECK(cudaCreateSurfaceObject(&surface, &surface_resource));
    CHECK(cudaMemcpy2D(pitched, pitch, in.data(), 400, 400, 10, cudaMemcpyHostToDevice));
    float halves[2][70];
    for (int i = 0; i < 2; i++) {
        halve<<<1, dim3(16, 8)>>>(i ? memory_texture : texture, surface, 10, 7);
        CHECK(cudaMemcpy2DFromArray(halves[i], 40, target, 0, 0, 40, 7, cudaMemcpyDeviceToHost));
    }
    printf("textures %g %g %g, %g %g\n", halves[0][0], halves[0][9], halves[0][68], halves[1][0], halves[1][69]);
    cudaResourceDesc of_texture, of_memory, of_surface;
    cudaTextureDesc told;
    CHECK(cudaGetTextureObjectResourceDesc(&of_texture, texture));
    CHECK(cudaGetTextureObjectResourceDesc(&of_memory, memory_texture));
    CHECK(cudaGetSurfaceObjectResourceDesc(&of_surface, surface));
    CHECK(cudaGetTextureObjectTextureDesc(&told, texture));
    printf("objects %d %d, %zu x %zu of %d bits, %d\n", of_texture.res.array.array == source,
           of_surface.res.array.array == target, of_memory.res.pitch2D.width, of_memory.res.pitch2D.height,
           of_memory.res.pitch2D.desc.x, memcmp(&told, &sampling, sizeof(told)));
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaFreeArray(source));

    cudaFuncAttributes function;
    CHECK(cudaFuncGetAttributes(&function, scale<float>));
    printf("function %d threads, %zu constant, %zu local, at most %d registers\n", function.maxThreadsPerBlock,
           function.constSizeBytes, function.localSizeBytes, function.numRegs);
    const char *name;
    size_t offset, bytes;
    int device, clusters;
    cudaLaunchConfig_t config = {};
    config.blockDim = dim3(512);
    CHECK(cudaFuncGetName(&name, (const void *)add_one));
    CHECK(cudaFuncGetParamInfo((const void *)add_one, 1, &offset, &bytes));
    CHECK(cudaDeviceGetByPCIBusId(&device, "0000:01:00.0"));
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, add_one, &config));
    printf("%s %zu %zu, device %d, %d clusters\n", name, offset, bytes, device, clusters);

    // Errors: what fails is remembered by the thread that failed, until it asks.
    scale<<<1, 4096>>>(a, b, N);
    cudaError_t other = cudaErrorUnknown;
    std::thread([&] { other = cudaPeekAtLastError(); }).join();
    cudaError_t peeked = cudaPeekAtLastError(), got = cudaGetLastError();
    printf("errors %s %s %s %s\n", cudaGetErrorName(other), cudaGetErrorName(peeked), cudaGetErrorName(got),
           cudaGetErrorName(cudaGetLastError()));
    printf("direction %s\n", cudaGetErrorName(cudaMemcpy(out.data(), b, 4, cudaMemcpyHostToDevice)));
    cudaGetLastError();

    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    printf("device %d.%d, warps of %d, %zu bytes, cluster %d, reserved %d\n", properties.major, properties.minor,
           properties.warpSize, properties.sharedMemPerBlockOptin, properties.clusterLaunch,
           properties.hostNumaMultinodeIpcSupported);
    CHECK(cudaFree(a));
    CHECK(cudaFree(values));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaDeviceReset());
}
