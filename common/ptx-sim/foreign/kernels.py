"""Triton kernels as its users write them: element by element, reductions, scans, sorts, products, attention, atomics."""

import itertools

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

WORKLOADS = {}


def workload(function):
    WORKLOADS[function.__name__.replace("_", "-")] = function
    return function


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def empty(*shape, dtype=torch.float32):
    return torch.full(shape, 0, device="cuda", dtype=dtype)


def launch(record, kernel, grid, *args, **options):
    with record():
        kernel[grid](*args, **options)


# --- Element by element -----------------------------------------------------------------------------------------------


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(z + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


@workload
def elementwise_add(record):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int8):
        x, y = ((randn(1000) * 50).to(dtype) for _ in range(2))
        launch(record, add, (4,), x, y, torch.zeros_like(x), 1000, BLOCK=256)


@triton.jit
def math(x, z, n, BLOCK: tl.constexpr, WHAT: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(x + at, mask, other=1.0)
    if WHAT == 0:
        r = tl.exp(a) + tl.log(tl.abs(a) + 1.0)
    elif WHAT == 1:
        r = tl.sin(a) * tl.cos(a)
    elif WHAT == 2:
        r = tl.sqrt(tl.abs(a)) + tl.rsqrt(tl.abs(a) + 0.5)
    elif WHAT == 3:
        r = tl.sigmoid(a) * a
    elif WHAT == 4:
        r = tl.erf(a) * 0.5
    elif WHAT == 5:
        r = libdevice.tanh(a) + libdevice.pow(tl.abs(a), 1.7)
    elif WHAT == 6:
        r = tl.floor(a) + tl.ceil(a * 3.0) + libdevice.rint(a * 7.0)
    elif WHAT == 7:
        r = tl.where(a > 0, tl.exp2(a), tl.log2(1.0 - a)) + tl.div_rn(a, 3.0)
    elif WHAT == 8:
        r = tl.fma(a, a, a) + tl.maximum(a, 0.25) - tl.minimum(a, -0.25) + tl.clamp(a, -0.5, 0.5)
    elif WHAT == 9:
        r = libdevice.asin(a * 0.1) + libdevice.atan2(a, 2.0) + libdevice.lgamma(tl.abs(a) + 1.0)
    else:
        r = libdevice.fast_expf(a) + libdevice.expm1(a) + libdevice.log1p(tl.abs(a)) + libdevice.cbrt(a)
    tl.store(z + at, r, mask)


@workload
def elementwise_math(record):
    x = randn(700)
    for what in range(11):
        launch(record, math, (3,), x, empty(700), 700, BLOCK=256, WHAT=what)


@triton.jit
def convert(x, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, at < n).to(z.dtype.element_ty), at < n)


@workload
def conversions(record):
    floats = [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float64]
    for source, to in itertools.permutations(floats, 2):
        # Triton has no way from one 8-bit type to another, nor from f64 to one.
        if torch.float64 in (source, to) and torch.float32 not in (source, to) or source.itemsize == to.itemsize == 1:
            continue
        launch(record, convert, (2,), (randn(500) * 3).to(source), empty(500).to(to), 500, BLOCK=256)
    for source, to in [(torch.float32, torch.int32), (torch.int32, torch.float32), (torch.int64, torch.float32), (torch.uint8, torch.float16),
                       (torch.float16, torch.int8), (torch.int8, torch.bfloat16)]:
        launch(record, convert, (2,), (randn(500) * 30).to(source), empty(500).to(to), 500, BLOCK=256)


@triton.jit
def integers(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a, b = tl.load(x + at, mask), tl.load(y + at, mask, other=1)
    r = a // b + a % b + (a ^ b) + (a & ~b) + (a << 3) + (b >> 2) + tl.abs(a) + tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(a.dtype)
    tl.store(z + at, r, mask)


@workload
def elementwise_integers(record):
    for dtype in (torch.int32, torch.int64):
        x = torch.randint(-10000, 10000, (500,), device="cuda").to(dtype)
        y = torch.randint(1, 100, (500,), device="cuda").to(dtype)
        launch(record, integers, (2,), x, y, torch.zeros_like(x), 500, BLOCK=256)


@triton.jit
def dropout(x, z, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    tl.store(z + at, tl.where(keep, tl.load(x + at, at < n) / (1 - p), 0.0), at < n)


@triton.jit
def normal(z, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.randn(seed, at), at < n)


@workload
def random_numbers(record):
    launch(record, dropout, (2,), randn(900), empty(900), 900, 0.3, 123, BLOCK=512)
    launch(record, normal, (2,), empty(900), 900, 7, BLOCK=512)


@triton.jit
def transpose(x, z, rows, columns, R: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0) * R + tl.arange(0, R)
    j = tl.program_id(1) * C + tl.arange(0, C)
    tile = tl.load(x + i[:, None] * columns + j[None, :], (i[:, None] < rows) & (j[None, :] < columns))
    tl.store(z + j[:, None] * rows + i[None, :], tl.trans(tile), (j[:, None] < columns) & (i[None, :] < rows))


@triton.jit
def rearrange(x, z, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    even, odd = tl.split(tl.reshape(a, (N // 2, 2)))
    both = tl.interleave(odd, even)
    tl.store(z + at, tl.flip(both, 0) + tl.reshape(tl.permute(tl.reshape(a, (4, N // 4)), (1, 0)), (N,)))


@triton.jit
def gather_rows(x, index, z, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(z + at, tl.gather(tl.load(x + at), tl.load(index + at), 0))


@workload
def layouts(record):
    for dtype in (torch.float32, torch.float16, torch.int8):
        x = (randn(70, 45) * 20).to(dtype)
        launch(record, transpose, (3, 2), x, torch.zeros(45, 70, device="cuda", dtype=dtype), 70, 45, R=32, C=32)
    launch(record, rearrange, (1,), randn(256), empty(256), N=256)
    launch(record, gather_rows, (1,), randn(128), torch.randperm(128, device="cuda", dtype=torch.int32), empty(128), N=128)


# --- Reductions, scans, sorts -----------------------------------------------------------------------------------------


@triton.jit
def softmax(x, z, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(x + row * columns + at, at < columns, other=-float("inf"))
    e = tl.exp(a - tl.max(a, 0))
    tl.store(z + row * columns + at, e / tl.sum(e, 0), at < columns)


@workload
def softmaxes(record):
    for warps, columns in ((1, 60), (4, 300), (8, 1000)):
        for dtype in (torch.float32, torch.float16):
            x = randn(5, columns, dtype=dtype)
            launch(record, softmax, (5,), x, torch.zeros_like(x), columns, BLOCK=triton.next_power_of_2(columns), num_warps=warps)


@triton.jit
def layer_norm(x, w, b, z, mean_out, rstd_out, columns, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < columns
    a = tl.load(x + row * columns + at, mask, other=0.0).to(tl.float32)
    mean = tl.sum(a, 0) / columns
    d = tl.where(mask, a - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, 0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    tl.store(z + row * columns + at, d * rstd * tl.load(w + at, mask) + tl.load(b + at, mask), mask)


@triton.jit
def layer_norm_backward(x, w, dy, mean, rstd, dx, dw, db, lock, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < columns
    a = tl.load(x + row * columns + at, mask, other=0.0)
    g = tl.load(dy + row * columns + at, mask, other=0.0)
    r = tl.load(rstd + row)
    n = tl.where(mask, (a - tl.load(mean + row)) * r, 0.0)
    gw = tl.where(mask, g * tl.load(w + at, mask), 0.0)
    c1, c2 = tl.sum(n * gw, 0) / columns, tl.sum(gw, 0) / columns
    tl.store(dx + row * columns + at, (gw - (n * c1 + c2)) * r, mask)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(dw + at, tl.load(dw + at, mask) + g * n, mask)
    tl.store(db + at, tl.load(db + at, mask) + g, mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@workload
def layer_norms(record):
    x, w, b, dy = randn(6, 500), randn(500), randn(500), randn(6, 500)
    mean, rstd = empty(6), empty(6)
    launch(record, layer_norm, (6,), x, w, b, torch.zeros_like(x), mean, rstd, 500, 1e-5, BLOCK=512)
    launch(record, layer_norm_backward, (6,), x, w, dy, mean, rstd, torch.zeros_like(x), empty(500), empty(500),
           empty(1, dtype=torch.int32), 500, BLOCK=512)


@triton.jit
def reduce(x, z, rows, columns, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, WHAT: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    a = tl.load(x + i * columns + j, (i < rows) & (j < columns), other=0)
    if WHAT == 0:
        r = tl.sum(a, AXIS)
    elif WHAT == 1:
        r = tl.max(a, AXIS)
    elif WHAT == 2:
        r = tl.argmax(a, AXIS)
    elif WHAT == 3:
        r = tl.argmin(a, AXIS, tie_break_left=False)
    elif WHAT == 4:
        r = tl.xor_sum(a, AXIS)
    else:
        r = tl.min(a, AXIS)
    out = tl.arange(0, C if AXIS == 0 else R)
    tl.store(z + out, r, out < (columns if AXIS == 0 else rows))


@workload
def reductions(record):
    for what, axis in itertools.product(range(6), (0, 1)):
        ints = what == 4
        x = torch.randint(-100, 100, (50, 60), device="cuda", dtype=torch.int32) if ints else randn(50, 60)
        z = empty(64, dtype=torch.int32 if what in (2, 3, 4) else torch.float32)
        launch(record, reduce, (1,), x, z, 50, 60, R=64, C=64, AXIS=axis, WHAT=what)
    for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.float64):
        x = (randn(50, 60) * 3).to(dtype)
        launch(record, reduce, (1,), x, torch.zeros(64, device="cuda", dtype=dtype), 50, 60, R=64, C=64, AXIS=1, WHAT=1)


@triton.jit
def welford(m1, v1, w1, m2, v2, w2):
    d, w = m2 - m1, w1 + w2
    ratio = tl.where(w == 0.0, 0.0, w2 / w)
    return m1 + d * ratio, v1 + v2 + d * d * w1 * ratio, w


@triton.jit
def variance(x, z, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < columns
    a = tl.load(x + row * columns + at, mask, other=0.0)
    _, m2, w = tl.reduce((a, tl.zeros_like(a), mask.to(tl.float32)), 0, welford)
    tl.store(z + row, m2 / w)


@triton.jit
def scan_step(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def recurrence(a, b, z, n, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, BLOCK)
    _, h = tl.associative_scan((tl.load(a + at, at < n, other=1.0), tl.load(b + at, at < n, other=0.0)), 0, scan_step, reverse=REVERSE)
    tl.store(z + at, h, at < n)


@triton.jit
def cumulative(x, z, columns, BLOCK: tl.constexpr, PRODUCT: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(x + row * columns + at, at < columns, other=0)
    tl.store(z + row * columns + at, tl.cumprod(a, 0) if PRODUCT else tl.cumsum(a, 0), at < columns)


@workload
def scans(record):
    launch(record, variance, (4,), randn(4, 333), empty(4), 333, BLOCK=512)
    for reverse in (False, True):
        launch(record, recurrence, (1,), torch.rand(900, device="cuda"), randn(900), empty(900), 900, BLOCK=1024, REVERSE=reverse)
    for dtype, product in ((torch.float32, False), (torch.int32, False), (torch.float32, True), (torch.float64, False)):
        x = (torch.rand(3, 200, device="cuda") + 0.5).to(dtype)
        launch(record, cumulative, (3,), x, torch.zeros_like(x), 200, BLOCK=256, PRODUCT=product)


@triton.jit
def sort_rows(x, z, N: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(z + at, tl.sort(tl.load(x + at), descending=DESCENDING))


@triton.jit
def top_k(x, z, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    tl.store(z + row * K + tl.arange(0, K), tl.topk(tl.load(x + row * N + tl.arange(0, N)), K))


@triton.jit
def histogram(x, z, N: tl.constexpr, BINS: tl.constexpr):
    counts = tl.histogram(tl.load(x + tl.program_id(0) * N + tl.arange(0, N)), BINS)
    tl.atomic_add(z + tl.arange(0, BINS), counts)


@workload
def sorts(record):
    for dtype, descending in ((torch.float32, False), (torch.int32, True), (torch.float16, False)):
        x = (randn(3, 128) * 100).to(dtype)
        launch(record, sort_rows, (3,), x, torch.zeros_like(x), N=128, DESCENDING=descending)
    launch(record, top_k, (3,), randn(3, 256), empty(3, 8), N=256, K=8)
    launch(record, histogram, (4,), torch.randint(0, 64, (4 * 256,), device="cuda", dtype=torch.int32), empty(64, dtype=torch.int32), N=256, BINS=64)


@triton.jit
def atomics(x, z, counter, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, at < n, other=0)
    tl.atomic_add(z, tl.sum(a, 0))
    tl.atomic_max(z + 1, tl.max(a, 0))
    tl.atomic_min(z + 2, tl.min(a, 0))
    tl.atomic_add(z + 3 + at % 5, a, at < n)
    if tl.atomic_add(counter, 1) == tl.num_programs(0) - 1:
        tl.atomic_xchg(counter, 0)


@triton.jit
def atomic_rows(x, z, columns, C: tl.constexpr):
    at = tl.arange(0, C)
    tl.atomic_add(z + at, tl.load(x + tl.program_id(0) * columns + at, at < columns, other=0.0), at < columns, sem="relaxed")


@workload
def atomic_operations(record):
    for dtype in (torch.int32, torch.float32):
        x = torch.randint(-50, 50, (600,), device="cuda").to(dtype)
        launch(record, atomics, (3,), x, torch.zeros(8, device="cuda", dtype=dtype), empty(1, dtype=torch.int32), 600, BLOCK=256)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.randint(-8, 8, (6, 250), device="cuda").to(dtype)
        launch(record, atomic_rows, (6,), x, torch.zeros(250, device="cuda", dtype=dtype), 250, C=256)


@triton.jit
def cross_entropy(logits, target, loss, grad, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(target + row)
    largest, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        a = tl.load(logits + row * columns + at, at < columns, other=-float("inf"))
        m = tl.maximum(largest, tl.max(a, 0))
        total = total * tl.exp(largest - m) + tl.sum(tl.exp(a - m), 0)
        largest = m
    tl.store(loss + row, largest + tl.log(total) - tl.load(logits + row * columns + label))
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        a = tl.load(logits + row * columns + at, at < columns, other=-float("inf"))
        tl.store(grad + row * columns + at, tl.exp(a - largest) / total - tl.where(at == label, 1.0, 0.0), at < columns)


@triton.jit
def rotary(x, cos, sin, z, heads, HALF: tl.constexpr):
    token, head, at = tl.program_id(0), tl.program_id(1), tl.arange(0, HALF)
    base = (token * heads + head) * 2 * HALF
    c, s = tl.load(cos + token * HALF + at), tl.load(sin + token * HALF + at)
    a, b = tl.load(x + base + at), tl.load(x + base + HALF + at)
    tl.store(z + base + at, a * c - b * s)
    tl.store(z + base + HALF + at, b * c + a * s)


@triton.jit
def adam(p, g, m, v, n, step, lr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    grad = tl.load(g + at, mask)
    first = 0.9 * tl.load(m + at, mask) + 0.1 * grad
    second = 0.999 * tl.load(v + at, mask) + 0.001 * grad * grad
    corrected = first / (1 - libdevice.pow(0.9, step))
    tl.store(m + at, first, mask)
    tl.store(v + at, second, mask)
    tl.store(p + at, tl.load(p + at, mask) - lr * corrected / (tl.sqrt(second / (1 - libdevice.pow(0.999, step))) + 1e-8), mask)


@workload
def training(record):
    launch(record, cross_entropy, (4,), randn(4, 700), torch.randint(0, 700, (4,), device="cuda"), empty(4), empty(4, 700), 700, BLOCK=256)
    for dtype in (torch.float32, torch.float16):
        x = randn(5, 3, 64, dtype=dtype)
        launch(record, rotary, (5, 3), x, randn(5, 32, dtype=dtype), randn(5, 32, dtype=dtype), torch.zeros_like(x), 3, HALF=32)
    launch(record, adam, (4,), randn(1000), randn(1000), empty(1000), empty(1000), 1000, 3.0, 1e-3, BLOCK=256)


# --- Products ---------------------------------------------------------------------------------------------------------


@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
           ACC: tl.constexpr, PRECISION: tl.constexpr):
    pid = tl.program_id(0)
    pm, pn = tl.swizzle2d(pid // tl.cdiv(N, BN), pid % tl.cdiv(N, BN), tl.cdiv(M, BM), tl.cdiv(N, BN), GROUP)
    i, j, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), ACC)
    for start in range(0, K, BK):
        left = tl.load(a + i[:, None] * sam + (start + k)[None, :] * sak, (i[:, None] < M) & ((start + k)[None, :] < K), other=0.0)
        right = tl.load(b + (start + k)[:, None] * sbk + j[None, :] * sbn, ((start + k)[:, None] < K) & (j[None, :] < N), other=0.0)
        sums = tl.dot(left, right, sums, input_precision=PRECISION, out_dtype=ACC)
    tl.store(c + i[:, None] * N + j[None, :], sums.to(c.dtype.element_ty), (i[:, None] < M) & (j[None, :] < N))


def product(record, dtype, tile, warps, stages, *, out=None, transposed=False, precision=None, shape=(72, 88, 80), acc=tl.float32):
    M, N, K = shape
    BM, BN, BK = tile
    values = lambda *shape: torch.randint(-9, 9, shape, device="cuda").to(dtype) if dtype == torch.int8 else randn(*shape, dtype=dtype)
    a = values(M, K)
    b = values(N, K).T if transposed else values(K, N)
    c = torch.zeros(M, N, device="cuda", dtype=out or dtype)
    grid = (triton.cdiv(M, BM) * triton.cdiv(N, BN),)
    launch(record, matmul, grid, a, b, c, M, N, K, *a.stride(), *b.stride(), BM=BM, BN=BN, BK=BK, GROUP=2, ACC=acc,
           PRECISION=precision, num_warps=warps, num_stages=stages)


@workload
def products(record):
    half = (torch.float16, torch.bfloat16)
    for dtype, warps, stages in itertools.product(half, (1, 2, 4), (1, 3)):
        product(record, dtype, (32, 32, 32), warps, stages)
    for dtype, tile in itertools.product(half, ((16, 16, 16), (16, 64, 32), (32, 64, 64), (64, 32, 32))):
        product(record, dtype, tile, 2, 2, out=torch.float32)
        product(record, dtype, tile, 2, 2, transposed=True)
    for precision in ("tf32", "ieee", "tf32x3"):
        product(record, torch.float32, (32, 32, 32), 4, 2, precision=precision)
        product(record, torch.float32, (64, 32, 16), 2, 3, precision=precision, transposed=True)
    for warps in (1, 4):
        product(record, torch.int8, (32, 32, 32), warps, 2, out=torch.int32, acc=tl.int32)
        product(record, torch.int8, (32, 32, 64), warps, 2, out=torch.int32, acc=tl.int32, transposed=True)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        product(record, dtype, (32, 32, 32), 2, 2, out=torch.float32, transposed=True)
    product(record, torch.float64, (16, 16, 16), 2, 2, acc=tl.float64)
    product(record, torch.float16, (32, 32, 32), 2, 2, acc=tl.float16)


@workload
def products_by_warp_groups(record):
    for dtype, tile, warps in itertools.product((torch.float16, torch.bfloat16), ((64, 64, 32), (128, 64, 64), (128, 128, 32)), (4, 8)):
        product(record, dtype, tile, warps, 3, shape=(136, 136, 96))
    for tile in ((64, 64, 64), (128, 64, 128)):
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            product(record, dtype, tile, 4, 2, out=torch.float32, transposed=True, shape=(136, 136, 256))
    product(record, torch.float32, (64, 64, 32), 4, 3, precision="tf32", shape=(136, 136, 96))
    product(record, torch.int8, (64, 64, 64), 4, 2, out=torch.int32, acc=tl.int32, transposed=True, shape=(136, 136, 128))


@triton.jit
def split_k(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.program_id(0) * BK + tl.arange(0, BK)
    tl.atomic_add(c + i[:, None] * N + j[None, :], tl.dot(tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + j[None, :])))


@triton.jit
def quantised(a, b, scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Weights of 4 bits, two in a byte."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    packed = tl.load(b + (k[:, None] // 2) * N + j[None, :])
    weights = ((packed >> ((k[:, None] % 2) * 4)) & 0xF).to(tl.float16) - 8.0
    sums = tl.dot(tl.load(a + i[:, None] * K + k[None, :]), weights)
    tl.store(c + i[:, None] * N + j[None, :], sums * tl.load(scale + j)[None, :])


@triton.jit
def batched(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    n, i, j, k = tl.arange(0, B)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + n * M * K + i[None, :, None] * K + k[None, None, :])
    right = tl.load(b + n * K * N + k[None, :, None] * N + j[None, None, :])
    tl.store(c + n * M * N + i[None, :, None] * N + j[None, None, :], tl.dot(left, right))


@workload
def other_products(record):
    launch(record, split_k, (4,), randn(32, 128, dtype=torch.float16), randn(128, 32, dtype=torch.float16), empty(32, 32), M=32, N=32, K=128, BK=32)
    launch(record, quantised, (1,), randn(16, 64, dtype=torch.float16), torch.randint(0, 256, (32, 32), device="cuda", dtype=torch.uint8),
           torch.rand(32, device="cuda"), empty(16, 32), M=16, N=32, K=64)
    launch(record, batched, (1,), randn(2, 32, 32, dtype=torch.float16), randn(2, 32, 32, dtype=torch.float16), empty(2, 32, 32), B=2, M=32, N=32, K=32)


# --- Attention --------------------------------------------------------------------------------------------------------


@triton.jit
def attention(q, k, v, o, lse, T, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    head, i, d = tl.program_id(1), tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    base = head * T * D
    queries = tl.load(q + base + i[:, None] * D + d[None, :], i[:, None] < T, other=0.0)
    largest, total, out = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BM, T) if CAUSAL else T
    for start in range(0, end, BN):
        j = start + tl.arange(0, BN)
        keys = tl.load(k + base + j[None, :] * D + d[:, None], j[None, :] < T, other=0.0)
        scores = tl.dot(queries, keys) * (scale * 1.44269504)
        allowed = (j[None, :] < T) & ((i[:, None] >= j[None, :]) | (not CAUSAL))
        scores = tl.where(allowed, scores, -float("inf"))
        m = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp2(scores - m[:, None])
        kept = tl.exp2(largest - m)
        total = total * kept + tl.sum(p, 1)
        values = tl.load(v + base + j[:, None] * D + d[None, :], j[:, None] < T, other=0.0)
        out = tl.dot(p.to(values.dtype), values, out * kept[:, None])
        largest = m
    tl.store(o + base + i[:, None] * D + d[None, :], (out / total[:, None]).to(o.dtype.element_ty), i[:, None] < T)
    tl.store(lse + head * T + i, largest + tl.log2(total), i < T)


@workload
def attentions(record):
    for dtype, d, (bm, bn), warps, causal in [
        (torch.float16, 32, (32, 32), 2, True), (torch.float16, 64, (32, 32), 4, False), (torch.bfloat16, 64, (16, 32), 1, True),
        (torch.bfloat16, 32, (32, 16), 2, False), (torch.float32, 32, (32, 32), 4, True), (torch.float16, 64, (64, 64), 4, True),
        (torch.bfloat16, 64, (64, 32), 4, False), (torch.float16, 128, (128, 64), 8, True),
    ]:
        T = 100
        q, k, v = (randn(2, T, d, dtype=dtype) for _ in range(3))
        launch(record, attention, (triton.cdiv(T, bm), 2), q, k, v, torch.zeros_like(q), empty(2, T), T, d**-0.5, D=d, BM=bm, BN=bn, CAUSAL=causal, num_warps=warps)


# --- What needs tensor copies -----------------------------------------------------------------------------------------


@triton.jit
def matmul_by_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    right = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    to = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(left.load([i, k]), right.load([k, j]), sums)
    to.store([i, j], sums.to(tl.float16))


@workload
def descriptors(record):
    triton.set_allocator(lambda size, align, stream: torch.zeros(size, device="cuda", dtype=torch.int8))
    for tile in ((64, 64, 32), (128, 64, 64), (32, 32, 32)):
        a, b = randn(136, 96, dtype=torch.float16), randn(96, 136, dtype=torch.float16)
        grid = (triton.cdiv(136, tile[0]), triton.cdiv(136, tile[1]))
        launch(record, matmul_by_descriptors, grid, a, b, empty(136, 136, dtype=torch.float16), 136, 136, 96, BM=tile[0], BN=tile[1], BK=tile[2])
