// What kernels do with the heap of the device. `heap.ptx` is this file, compiled by `compile.py`.

// Right

extern "C" __global__ void round_trip(int* out, int n) {
    int* values = (int*)malloc(n * sizeof(int));
    for (int i = 0; i < n; ++i) values[i] = i * threadIdx.x + blockIdx.x;
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += values[n - 1 - i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    free(values);
}

struct Node {
    int value;
    Node* next;
    __device__ Node(int value, Node* next) : value(value), next(next) {}
    __device__ virtual ~Node() {}
};

extern "C" __global__ void linked_list(int* out, int n) {
    Node* list = nullptr;
    for (int i = 0; i < n; ++i) list = new Node(i + threadIdx.x, list);
    int sum = 0;
    while (list) {
        Node* next = list->next;
        sum = sum * 3 + list->value;
        delete list;
        list = next;
    }
    out[threadIdx.x] = sum;
}

struct alignas(64) Line {
    double values[8];
};

extern "C" __global__ void aligned(int* out) {
    Line* line = new Line;
    char* bytes = new char[threadIdx.x + 1];
    line->values[7] = 0.5;
    bytes[threadIdx.x] = 3;
    out[threadIdx.x] = (size_t)line % 64 + (size_t)bytes % 16 + (int)(line->values[7] * 4) + bytes[threadIdx.x];
    delete[] bytes;
    delete line;
}

// How many blocks of that size there are before the heap is full; frees them all.
extern "C" __global__ void fill(int* out, size_t bytes) {
    void** last = nullptr;
    int count = 0;
    while (void** block = (void**)malloc(bytes)) {
        *block = last;
        last = block;
        ++count;
    }
    while (last) {
        void** next = (void**)*last;
        free(last);
        last = next;
    }
    free(nullptr);
    *out = count;
}

extern "C" __global__ void give(int** out) {
    out[threadIdx.x] = (int*)malloc(sizeof(int));
    *out[threadIdx.x] = 10 + threadIdx.x;
}

extern "C" __global__ void take(int** in, int* out) {
    out[threadIdx.x] = *in[threadIdx.x];
    free(in[threadIdx.x]);
}

// Wrong

extern "C" __global__ void keeps_some(int* out) {
    int* values = (int*)malloc(2 * sizeof(int));
    int* more = (int*)malloc(sizeof(int));
    values[0] = values[1] = *more = threadIdx.x;
    out[threadIdx.x] = values[0] + *more;
    if (threadIdx.x % 2) free(values);
    free(more);
}

extern "C" __global__ void past_the_end(int* out, int n) {
    int* values = (int*)malloc(n * sizeof(int));
    for (int i = 0; i < n; ++i) values[i] = i;
    out[threadIdx.x] = values[n - 1 + threadIdx.x];
    free(values);
}

extern "C" __global__ void never_written(int* out, int n) {
    short* values = (short*)malloc(8 * sizeof(short));
    for (int i = 0; i < n; ++i) values[i] = i;
    out[threadIdx.x] = ((int*)values)[1];
    free(values);
}

extern "C" __global__ void twice(int** out) {
    int* value = (int*)malloc(sizeof(int));
    out[threadIdx.x] = value;
    free(out[threadIdx.x]);
    if (threadIdx.x) free(out[threadIdx.x]);
}

extern "C" __global__ void too_late(int** out) {
    int* value = (int*)malloc(sizeof(int));
    *value = threadIdx.x;
    out[threadIdx.x] = value;
    free(out[threadIdx.x]);
    *out[threadIdx.x] += 1;
}

extern "C" __global__ void inside(int* out, int offset) {
    char* bytes = (char*)malloc(16);
    bytes[0] = 1;
    out[threadIdx.x] = bytes[0];
    free(bytes + offset);
}

extern "C" __global__ void frees_a_buffer(int* out) { free(out); }

extern "C" __global__ void shared_by_two(int* out, int** handed) {
    if (threadIdx.x == 0) *handed = (int*)malloc(sizeof(int));
    __syncthreads();
    **handed = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = **handed;
    __syncthreads();
    if (threadIdx.x == 0) free(*handed);
}
