// What the persistent executor computes: tiles of layers, on values that lie channels last ([rows, channels], a row per pixel or token).
//
// The threads of a block are WORKERS, who compute, and one warp that runs ahead and fetches (see `executor_01_queue.cu`). Everything
// here is run by the workers alone; their barrier is number 1.
// run: queue
#pragma once
#include "cp_async.cuh"

constexpr int WORKERS = 256, FETCHERS = 32, THREADS = WORKERS + FETCHERS;

constexpr unsigned NONE = 0xFFFFFFFF;  // an operand that there is not

enum Operation { PRODUCT, ATTENTION, POINTWISE, EMBEDDING, END };
enum Activation { LINEAR, RELU, GELU, SILU };

// ANCHOR: task
// Where a value lies in the arena, in floats: from one image, pixel and channel to the next. Inputs and the output lie as NCHW.
struct Source {
    unsigned offset, image, pixel, channel;
};

// The same for all tasks of a layer.
struct Layer {
    unsigned operation;
    unsigned rows, columns, depth;  // of the result; K of a product
    unsigned pixels;                // rows of an image
    Source x, second, result;       // a product reads `of_x` channels of x, then those of `second`
    unsigned channels, of_x;
    unsigned height, width, out_height, out_width;  // of images; height and width after the enlargement by 2^up
    unsigned window, stride, padding, up;
    unsigned weight, pitch, bias;    // [depth][pitch]; of a pointwise layer a scale per channel
    unsigned image, image_is_later;  // [rows, columns] to add, before the activation or after it
    unsigned added, added_pitch;     // [images, added_pitch]: values to add to each channel of an image, after the activation
    unsigned activation;
    unsigned normalise;  // LayerNorm of x's rows without scale and shift, which are in the weights
    float eps;
    unsigned wide;  // x can be read in fours of channels
    unsigned tile;  // rows of a tile; of a product columns too
    unsigned parts, part_depth, partials;
    unsigned needed[3];                             // what the counters of each operand count to
    unsigned heads, tokens, key_parts, lanes, each;  // of attention
    float scale;
    unsigned column_tiles;
};

// One tile of a layer: what a block does at once.
struct Task {
    unsigned layer, row, column, part;
    unsigned first[3], number[3];  // counters to wait for, by operand
    unsigned signal;               // counter to increase
    unsigned merged;               // counter of the parts of this tile
};
// ANCHOR_END: task

constexpr int LAYER_WORDS = 64, TASK_WORDS = 16;
constexpr int LAYER_BYTES = sizeof(Layer), TASK_BYTES = sizeof(Task);
static_assert(sizeof(Layer) <= 4 * LAYER_WORDS && sizeof(Task) <= 4 * TASK_WORDS);

struct Memory {
    float *arena;
    const float *parameters;
    unsigned *counters;
};

// `bar.sync` counts whole warps: no lane may arrive while another is still on its way.
__device__ inline void sync_workers() {
    __syncwarp();
    asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory");
}

// 4 bytes between multiples of 4; zero, and nothing is read, unless `inside`.
__device__ inline void copy4(float *to, const float *from, bool inside) {
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    int bytes = inside ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
}

__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float sum_of_warp(float value) {
    for (int away = 16; away > 0; away /= 2) {
        value += __shfl_xor_sync(~0u, value, away);
    }
    return value;
}

// ANCHOR: finish
__device__ inline float activate(unsigned activation, float x) {
    switch (activation) {
    case RELU: return x < 0.0f ? 0.0f : x;  // NaN stays NaN
    case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case SILU: return x / (1.0f + expf(-x));
    default: return x;
    }
}

// What is added to a sum; loaded before the sums of others are stored, so that loads do not wait for each other.
struct Addends {
    float bias, image, added;
};

__device__ inline Addends addends(const Layer &layer, const Memory &memory, unsigned row, unsigned column) {
    Addends terms = {};
    if (layer.bias != NONE) {
        terms.bias = memory.parameters[layer.bias + column];
    }
    if (layer.image != NONE) {
        terms.image = memory.arena[layer.image + row * layer.columns + column];
    }
    if (layer.added != NONE) {
        terms.added = memory.arena[layer.added + row / layer.pixels * layer.added_pitch + column];
    }
    return terms;
}

__device__ inline void store(const Layer &layer, const Memory &memory, unsigned row, unsigned column, float value) {
    const Source &to = layer.result;
    unsigned place = to.channel == 1 ? row * to.pixel : row / layer.pixels * to.image + row % layer.pixels * to.pixel;
    memory.arena[to.offset + place + column * to.channel] = value;
}

// Stores a finished sum: activation(sum + bias + image) + added; or the image is added later.
__device__ inline void finish(
    const Layer &layer, const Memory &memory, unsigned row, unsigned column, float sum, const Addends &terms) {
    bool later = layer.image_is_later;
    sum = activate(layer.activation, sum + terms.bias + (later ? 0.0f : terms.image));
    store(layer, memory, row, column, sum + (later ? terms.image : 0.0f) + terms.added);
}
// ANCHOR_END: finish

// ANCHOR: statistics
// Mean and 1/deviation of a tile's rows of x, a warp per row, into `statistics` [TILE][2].
template <int TILE>
__device__ inline void row_statistics(const Layer &layer, const Memory &memory, unsigned first, float *statistics) {
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (unsigned at = warp; at < TILE; at += WORKERS / 32) {
        float mean = 0.0f, inverse = 0.0f;
        if (first + at < layer.rows) {
            const float *row = memory.arena + layer.x.offset + (first + at) * layer.x.image;
            for (unsigned c = lane; c < layer.channels; c += 32) {
                mean += row[c];
            }
            mean = sum_of_warp(mean) / layer.channels;
            float squares = 0.0f;
            for (unsigned c = lane; c < layer.channels; c += 32) {
                squares += (row[c] - mean) * (row[c] - mean);
            }
            inverse = rsqrtf(sum_of_warp(squares) / layer.channels + layer.eps);
        }
        if (lane == 0) {
            statistics[2 * at] = mean;
            statistics[2 * at + 1] = inverse;
        }
    }
}
// ANCHOR_END: statistics

constexpr int STAGES = 3;
constexpr int PER_STAGE = 2048;                            // floats of x and of the weights
constexpr int STAGE = 2 * PER_STAGE + 4 * 64;              // with four floats to fill up each row of x
constexpr int SHARED_FLOATS = STAGES * STAGE + 2 * 64;     // and the statistics of 64 rows
constexpr int SHARED_BYTES = SHARED_FLOATS * sizeof(float);

// ANCHOR: product
// A tile of TILE × TILE sums of a convolution or a linear layer, over the part of K that the task names. K counts (r, s, c), so that
// neighbouring values of x are channels of one pixel.
//
// A thread has 4 × 4 sums. A small tile needs few threads for that; then the threads are GROUPS that share out each stage's K, and
// what they found is added up in shared memory, in a fixed order.
//
// False: other parts of the tile are still missing.
template <int TILE>
__device__ bool product(const Layer &layer, const Task &task, const Memory &memory, float *shared) {
    constexpr int SIDE = TILE / 4, GROUPS = WORKERS / (SIDE * SIDE);
    constexpr int DEPTH = PER_STAGE / TILE, SLICE = DEPTH / GROUPS, PITCH = DEPTH + 4;
    constexpr int CHUNKS = DEPTH / 4;  // fours of a row; a thread copies one of row `copied` and one of a row TILE / 2 below
    unsigned thread = threadIdx.x;
    unsigned chunk = thread % CHUNKS * 4, copied = thread / CHUNKS;
    unsigned first_row = task.row * TILE, first_column = task.column * TILE;
    unsigned begin = task.part * layer.part_depth, end = min(begin + layer.part_depth, layer.depth);
    unsigned stages = (end - begin + DEPTH - 1) / DEPTH;
    float *statistics = shared + STAGES * STAGE;

    bool is_row[2];
    int top[2], left[2];
    unsigned of_x[2], of_second[2];  // of the image
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned row = first_row + copied + i * (TILE / 2);
        is_row[i] = row < layer.rows;
        unsigned plane = layer.out_height * layer.out_width, image = row / plane, pixel = row % plane;
        top[i] = (int)(pixel / layer.out_width * layer.stride) - (int)layer.padding;
        left[i] = (int)(pixel % layer.out_width * layer.stride) - (int)layer.padding;
        of_x[i] = layer.x.offset + image * layer.x.image;
        of_second[i] = layer.second.offset + image * layer.second.image;
    }
    unsigned lower_width = layer.width >> layer.up;

    // Where x has the value of this k for the copied row i; null: in the padding.
    auto value = [&](int i, unsigned k) -> const float * {
        unsigned r = 0, s = 0, c = k;
        if (layer.window > 1) {
            unsigned rs = k / layer.channels;
            c = k - rs * layer.channels;
            r = rs / layer.window;
            s = rs - r * layer.window;
        }
        unsigned y = top[i] + r, x = left[i] + s;
        if (!is_row[i] || k >= end || y >= layer.height || x >= layer.width) {
            return nullptr;
        }
        unsigned pixel = (y >> layer.up) * lower_width + (x >> layer.up);
        unsigned place = c < layer.of_x ? of_x[i] + pixel * layer.x.pixel + c * layer.x.channel
                                        : of_second[i] + pixel * layer.second.pixel + (c - layer.of_x);
        return memory.arena + place;
    };
    auto load = [&](unsigned number) {
        float *rows = shared + number % STAGES * STAGE, *weights = rows + TILE * PITCH;
        unsigned k = begin + number * DEPTH + chunk;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float *to = rows + (copied + i * (TILE / 2)) * PITCH + chunk;
            if (layer.wide) {
                const float *from = value(i, k);
                copy16(to, from ? from : memory.arena, from);
            } else {
#pragma unroll 1
                for (int j = 0; j < 4; j++) {
                    const float *from = value(i, k + j);
                    copy4(to + j, from ? from : memory.arena, from);
                }
            }
            unsigned at = thread / SIDE + i * (DEPTH / 2), across = thread % SIDE * 4;
            unsigned depth = begin + number * DEPTH + at, column = first_column + across;
            bool inside = depth < end && column < layer.pitch;
            const float *from = memory.parameters + layer.weight + (inside ? (size_t)depth * layer.pitch + column : 0);
            copy16(weights + at * TILE + across, from, inside);
        }
    };

#pragma unroll 1
    for (unsigned number = 0; number < STAGES - 1; number++) {
        if (number < stages) {
            load(number);
        }
        end_copy_group();
    }
    if (layer.normalise) {
        row_statistics<TILE>(layer, memory, first_row, statistics);
        sync_workers();
    }

    unsigned group = thread / (SIDE * SIDE), ty = thread % (SIDE * SIDE) / SIDE, tx = thread % SIDE;
    float sums[4][4] = {};
    for (unsigned number = 0; number < stages; number++) {
        float *rows = shared + number % STAGES * STAGE, *weights = rows + TILE * PITCH;
        copy_groups_arrived<STAGES - 2>();
        if (layer.normalise) {  // each thread what it copied itself: that has arrived for it
#pragma unroll
            for (int i = 0; i < 2; i++) {
                unsigned row = copied + i * (TILE / 2);
                float mean = statistics[2 * row], inverse = statistics[2 * row + 1];
                for (int j = 0; j < 4; j++) {
                    float *x = rows + row * PITCH + chunk + j;
                    *x = (*x - mean) * inverse;
                }
            }
        }
        sync_workers();  // the stage is there for all, and nobody reads the one before any more
        if (number + STAGES - 1 < stages) {
            load(number + STAGES - 1);
        }
        end_copy_group();
#pragma unroll 2
        for (int at = 0; at < SLICE; at += 4) {
            unsigned k = group * SLICE + at;
            float4 a[4], b[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a[i] = *reinterpret_cast<const float4 *>(rows + (ty + SIDE * i) * PITCH + k);
                b[i] = *reinterpret_cast<const float4 *>(weights + (k + i) * TILE + tx * 4);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float of_a[4] = {a[i].x, a[i].y, a[i].z, a[i].w};
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    sums[i][0] = fmaf(of_a[j], b[j].x, sums[i][0]);
                    sums[i][1] = fmaf(of_a[j], b[j].y, sums[i][1]);
                    sums[i][2] = fmaf(of_a[j], b[j].z, sums[i][2]);
                    sums[i][3] = fmaf(of_a[j], b[j].w, sums[i][3]);
                }
            }
        }
    }

    sync_workers();  // the stages make room for the sums: [GROUPS][TILE][TILE]
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float *to = shared + group * TILE * TILE + (ty + SIDE * i) * TILE + tx * 4;
        *reinterpret_cast<float4 *>(to) = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    }
    sync_workers();
    float *partials = memory.arena + layer.partials +
                      (size_t)(task.row * layer.column_tiles + task.column) * layer.parts * (TILE * TILE);
    auto of_groups = [&](unsigned at) {
        float sum = 0.0f;
#pragma unroll
        for (int from = 0; from < GROUPS; from++) {
            sum += shared[from * TILE * TILE + at];
        }
        return sum;
    };
    // ANCHOR: last
    // Whoever brings the last part adds them all up, in their order: the same bits whoever that is.
    if (layer.parts > 1) {
        __shared__ bool is_last;
        for (unsigned at = thread; at < TILE * TILE; at += WORKERS) {
            partials[task.part * (TILE * TILE) + at] = of_groups(at);
        }
        sync_workers();
        if (thread == 0) {
            __threadfence();
            is_last = atomicAdd(memory.counters + task.merged, 1) + 1 == layer.parts;
            __threadfence();
        }
        sync_workers();
        if (!is_last) {
            return false;
        }
    }
    // ANCHOR_END: last
    constexpr int TOGETHER = TILE * TILE / WORKERS < 4 ? TILE * TILE / WORKERS : 4;  // a thread's sums at a time
#pragma unroll 1
    for (unsigned base = thread; base < TILE * TILE; base += TOGETHER * WORKERS) {
        Addends terms[TOGETHER];
        float finished[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            unsigned at = base + i * WORKERS, row = first_row + at / TILE, column = first_column + at % TILE;
            bool inside = row < layer.rows && column < layer.columns;
            terms[i] = inside ? addends(layer, memory, row, column) : Addends{};
            finished[i] = 0.0f;
            if (layer.parts == 1) {
                finished[i] = of_groups(at);
            } else {
                for (unsigned part = 0; part < layer.parts; part++) {
                    finished[i] += partials[part * (TILE * TILE) + at];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            unsigned at = base + i * WORKERS, row = first_row + at / TILE, column = first_column + at % TILE;
            if (row < layer.rows && column < layer.columns) {
                finish(layer, memory, row, column, finished[i], terms[i]);
            }
        }
    }
    return true;
}
// ANCHOR_END: product

constexpr int KEY_FLOATS = 8192;  // of shared memory for keys and values
constexpr int PARTS_AT = KEY_FLOATS;  // behind them: what parts of the keys found, [WORKERS][EACH + 2]
static_assert(PARTS_AT + WORKERS * 12 <= SHARED_FLOATS);

// ANCHOR: attention
// A tile of queries of one image and head against all its keys, softmax online: the scores never are in memory. EACH values of a
// head are one lane's, and `lanes` of them have a query; `key_parts` threads share out its keys.
template <int EACH>
__device__ void attention(const Layer &layer, const Task &task, const Memory &memory, float *shared) {
    constexpr int TOGETHER = EACH <= 4 ? 4 : 2, ROW = 2 * EACH;  // keys at once; a lane's floats of a key and its value
    unsigned lanes = layer.lanes, head = layer.channels / layer.heads;
    unsigned queries = WORKERS / (lanes * layer.key_parts);
    unsigned lane = threadIdx.x % lanes, query = threadIdx.x / lanes % queries, part = threadIdx.x / (lanes * queries);
    unsigned image = task.column / layer.heads, of_head = task.column % layer.heads * head;
    unsigned pitch = layer.x.pixel, token = task.row * queries + query;
    const float *of_image = memory.arena + layer.x.offset + (size_t)image * layer.tokens * pitch + of_head;

    float q[EACH], sums[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        unsigned c = lane * EACH + i;
        q[i] = c < head && token < layer.tokens ? of_image[(size_t)token * pitch + c] * layer.scale : 0.0f;
        sums[i] = 0.0f;
    }
    float most = -1e30f, weight = 0.0f;

    unsigned of_part = KEY_FLOATS / (lanes * ROW) / layer.key_parts / TOGETHER * TOGETHER, chunk = of_part * layer.key_parts;
    for (unsigned first = 0; first < layer.tokens; first += chunk) {
        unsigned keys = min(chunk, layer.tokens - first);
        sync_workers();  // nobody reads the keys before any more
        for (unsigned i = threadIdx.x; i < keys * lanes * EACH; i += WORKERS) {
            unsigned c = i % (lanes * EACH), key = i / (lanes * EACH);
            float *to = shared + (key * lanes + c / EACH) * ROW + c % EACH;
            const float *from = of_image + (size_t)(first + key) * pitch + layer.channels + c;
            to[0] = c < head ? from[0] : 0.0f;
            to[EACH] = c < head ? from[layer.channels] : 0.0f;
        }
        sync_workers();
        unsigned end = min((part + 1) * of_part, keys);
        // All lanes of a query go the same way: they have the same part.
        for (unsigned key = part * of_part; key < end; key += TOGETHER) {
            float rows[TOGETHER][ROW], scores[TOGETHER], now = most;
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                const float *from = shared + (min(key + j, end - 1) * lanes + lane) * ROW;
#pragma unroll
                for (int i = 0; i < ROW; i += 4) {
                    *reinterpret_cast<float4 *>(&rows[j][i]) = *reinterpret_cast<const float4 *>(from + i);
                }
                scores[j] = 0.0f;
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    scores[j] = fmaf(q[i], rows[j][i], scores[j]);
                }
                for (unsigned away = 1; away < lanes; away *= 2) {
                    unsigned mates = lanes == 32 ? ~0u : ((1u << lanes) - 1) << (threadIdx.x % 32 / lanes * lanes);
                    scores[j] += __shfl_xor_sync(mates, scores[j], away);
                }
                now = fmaxf(now, scores[j]);
            }
            float keep = exp2_approx(most - now);
            most = now;
            weight *= keep;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                sums[i] *= keep;
            }
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                float of_key = key + j < end ? exp2_approx(scores[j] - now) : 0.0f;
                weight += of_key;
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    sums[i] = fmaf(of_key, rows[j][EACH + i], sums[i]);
                }
            }
        }
    }

    if (layer.key_parts > 1) {
        float *mine = shared + PARTS_AT + threadIdx.x * (EACH + 2);
        mine[0] = most;
        mine[1] = weight;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            mine[2 + i] = sums[i];
        }
        sync_workers();
        if (part == 0) {  // those of the other parts, in their order
            for (unsigned other = 1; other < layer.key_parts; other++) {
                const float *theirs = mine + (size_t)other * lanes * queries * (EACH + 2);
                float now = fmaxf(most, theirs[0]), keep = exp2_approx(most - now), add = exp2_approx(theirs[0] - now);
                most = now;
                weight = weight * keep + theirs[1] * add;
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    sums[i] = sums[i] * keep + theirs[2 + i] * add;
                }
            }
        }
    }
    if (part == 0 && token < layer.tokens) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            unsigned c = lane * EACH + i;
            if (c < head) {
                store(layer, memory, image * layer.tokens + token, of_head + c, sums[i] / weight);
            }
        }
    }
}
// ANCHOR_END: attention

// Scale and shift per channel, what is added, an activation.
__device__ inline void pointwise(const Layer &layer, const Task &task, const Memory &memory) {
    unsigned rows = min(layer.tile, layer.rows - task.row * layer.tile);
    for (unsigned at = threadIdx.x; at < rows * layer.columns; at += WORKERS) {
        unsigned row = task.row * layer.tile + at / layer.columns, column = at % layer.columns;
        const Source &from = layer.x;
        unsigned place = row / layer.pixels * from.image + row % layer.pixels * from.pixel + column * from.channel;
        float x = memory.arena[from.offset + place];
        if (layer.weight != NONE) {
            x *= memory.parameters[layer.weight + column];
        }
        finish(layer, memory, row, column, x, addends(layer, memory, row, column));
    }
}

// As phase 3's kernel: in double precision until the last rounding. Not inline: its registers are its own.
__device__ __noinline__ float2 embedded(float step, unsigned j, unsigned half) {
    double angle = step * exp(-9.210340371976184 * j / half);  // −ln(10000)
    return make_float2((float)cos(angle), (float)sin(angle));
}

__device__ inline void embedding(const Layer &layer, const Memory &memory) {
    unsigned half = layer.columns / 2;
    for (unsigned i = threadIdx.x; i < layer.rows * half; i += WORKERS) {
        unsigned row = i / half, j = i % half;
        float2 pair = embedded(memory.arena[layer.x.offset + row], j, half);
        store(layer, memory, row, j, pair.x);
        store(layer, memory, row, half + j, pair.y);
    }
}

// A task; false if others are needed to complete its tile.
__device__ inline bool perform(const Layer &layer, const Task &task, const Memory &memory, float *shared) {
    switch (layer.operation) {
    case PRODUCT:
        switch (layer.tile) {
        case 64: return product<64>(layer, task, memory, shared);
        case 32: return product<32>(layer, task, memory, shared);
        default: return product<16>(layer, task, memory, shared);
        }
    case ATTENTION:
        switch (layer.each) {
        case 2: attention<2>(layer, task, memory, shared); break;
        case 4: attention<4>(layer, task, memory, shared); break;
        case 8: attention<8>(layer, task, memory, shared); break;
        default: attention<10>(layer, task, memory, shared); break;
        }
        return true;
    case POINTWISE: pointwise(layer, task, memory); return true;
    default: embedding(layer, memory); return true;
    }
}
