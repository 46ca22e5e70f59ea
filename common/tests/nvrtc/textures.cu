// Textures and surfaces by their objects, as `textures.rs` runs them.

extern "C" __global__ void sample(cudaTextureObject_t photo, const float2* at, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex2D<float>(photo, at[i].x, at[i].y);
}

extern "C" __global__ void colours(cudaTextureObject_t photo, uchar4* out, int width, int height) {
    int x = threadIdx.x % width, y = threadIdx.x / width;
    if (y < height) out[y * width + x] = tex2D<uchar4>(photo, x + 0.5f, y + 0.5f);
}

extern "C" __global__ void fetch(cudaTextureObject_t numbers, const int* index, float* out) {
    out[threadIdx.x] = tex1Dfetch<float>(numbers, index[threadIdx.x]);
}

extern "C" __global__ void volume(cudaTextureObject_t cells, cudaTextureObject_t layers, float* out) {
    int i = threadIdx.x;
    float x = i % 4 + 0.5f;
    out[i] = tex3D<float>(cells, x, i / 4 % 3 + 0.5f, i / 12 + 0.5f) + 100.0f * tex2DLayered<float>(layers, x, 1.5f, i % 3);
}

extern "C" __global__ void gather(cudaTextureObject_t photo, float4* out) {
    out[threadIdx.x] = tex2Dgather<float4>(photo, 1.0f + threadIdx.x, 1.0f, 0);
}

extern "C" __global__ void levels(cudaTextureObject_t photo, float* out) {
    float x = threadIdx.x + 0.5f;
    out[threadIdx.x] = tex2DLod<float>(photo, x, 0.5f, 0.0f) +
                       tex2DGrad<float>(photo, x, 1.5f, make_float2(1.0f, 0.0f), make_float2(0.0f, 1.0f));
}

extern "C" __global__ void row_sums(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
    int x = threadIdx.x % width, y = threadIdx.x / width;
    if (y >= height) return;
    float sum = 0.0f;
    for (int dx = -1; dx <= 1; dx++)
        sum += surf2Dread<float>(from, (x + dx) * (int)sizeof(float), y, cudaBoundaryModeZero);
    surf2Dwrite(sum, to, x * (int)sizeof(float), y);
}

extern "C" __global__ void stack(cudaSurfaceObject_t layers, cudaSurfaceObject_t volume) {
    int i = threadIdx.x;
    surf2DLayeredwrite((unsigned char)(i + 1), layers, i % 4, i / 4 % 2, i / 8);
    surf3Dwrite(surf3Dread<float2>(volume, 8 * (i % 2), i / 2 % 2, i / 4), volume, 8 * (i % 2), i / 2 % 2, 2 + i / 4);
}
