"""Kernels in Triton, started by its own launcher, against NumPy. No torch: arrays are of the driver API."""

import ctypes

import numpy as np
import triton
import triton.language as tl

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, f"{name}: {code}"


context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)


class Array:
    """An array on the device, as Triton's launcher takes it."""

    def __init__(self, host):
        self.host = np.ascontiguousarray(host)
        self.dtype = {"float32": tl.float32, "float16": tl.float16, "int32": tl.int32}[str(host.dtype)]
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(host.nbytes))
        call("cuMemcpyHtoD_v2", self.address, self.host.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(host.nbytes))

    def data_ptr(self):
        return self.address.value

    def get(self):
        out = np.empty_like(self.host)
        call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), self.address, ctypes.c_size_t(out.nbytes))
        return out


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < columns
    v = tl.load(x + row * columns + at, mask=mask, other=0.0)
    mean = tl.sum(v, axis=0) / columns
    d = tl.where(mask, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, axis=0) / columns + epsilon)
    w, b = tl.load(weight + at, mask=mask), tl.load(bias + at, mask=mask)
    tl.store(out + row * columns + at, d * scale * w + b, mask=mask)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        s = start + tl.arange(0, BK)
        x = tl.load(a + i[:, None] * k + s[None, :], mask=(i[:, None] < m) & (s[None, :] < k), other=0.0)
        y = tl.load(b + s[:, None] * n + j[None, :], mask=(s[:, None] < k) & (j[None, :] < n), other=0.0)
        acc += tl.dot(x, y)
    tl.store(c + i[:, None] * n + j[None, :], acc, mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def counts(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def scan_and_sort(x, sums, ordered, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(v, axis=0))
    tl.store(ordered + at, tl.sort(v))

rng = np.random.default_rng(1)


def run_add():
    x, y = (rng.random(1000, dtype=np.float32) for _ in range(2))
    out = Array(np.zeros_like(x))
    add[(4,)](Array(x), Array(y), out, 1000, BLOCK=256)
    return out.get(), x + y, 1e-6


def run_softmax():
    x = rng.standard_normal((37, 781), dtype=np.float32)
    out = Array(np.zeros_like(x))
    softmax[(37,)](Array(x), out, 781, BLOCK=1024)
    e = np.exp(x - x.max(1, keepdims=True))
    return out.get(), e / e.sum(1, keepdims=True), 1e-5


def run_layer_norm():
    x, w, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((13, 500), 500, 500))
    out = Array(np.zeros_like(x))
    layer_norm[(13,)](Array(x), Array(w), Array(b), out, 500, 1e-5, BLOCK=512)
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return out.get(), normal * w + b, 1e-4


def run_matmul(dtype, warps, stages, block, shape, tolerance):
    (bm, bn, bk), (m, n, k) = block, shape
    a, b = (rng.standard_normal(extent).astype(dtype) for extent in ((m, k), (k, n)))
    c = Array(np.zeros((m, n), np.float32))
    grid = triton.cdiv(m, bm), triton.cdiv(n, bn)
    matmul[grid](Array(a), Array(b), c, m, n, k, BM=bm, BN=bn, BK=bk, num_warps=warps, num_stages=stages)
    return c.get(), a.astype(np.float32) @ b.astype(np.float32), tolerance


def run_counts():
    x = rng.integers(0, 10, 3000).astype(np.int32)
    out = Array(np.zeros(10, np.int32))
    counts[(3,)](Array(x), out, 3000, BLOCK=1024)
    return out.get(), np.bincount(x, minlength=10), 0


def run_scan_and_sort():
    x = rng.integers(0, 999, 512).astype(np.int32)
    sums, ordered = Array(x), Array(x)
    scan_and_sort[(1,)](Array(x), sums, ordered, BLOCK=512)
    return np.stack([sums.get(), ordered.get()]), np.stack([np.cumsum(x), np.sort(x)]), 0


cases = {
    "add": run_add,
    "softmax": run_softmax,
    "layer norm": run_layer_norm,
    "matmul of halves, 1 warp": lambda: run_matmul(np.float16, 1, 1, (16, 16, 32), (150, 130, 200), 2e-2),
    "matmul of halves, 4 warps": lambda: run_matmul(np.float16, 4, 3, (64, 64, 32), (150, 130, 200), 2e-2),
    "matmul of halves, 8 warps": lambda: run_matmul(np.float16, 8, 4, (128, 128, 64), (256, 256, 256), 2e-2),
    "matmul of floats": lambda: run_matmul(np.float32, 4, 2, (64, 64, 32), (150, 130, 200), 0.15),
    "counts": run_counts,
    "scan and sort": run_scan_and_sort,
}
failed = 0
for name, case in cases.items():
    try:
        got, want, tolerance = case()
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    except Exception as error:
        failed += 1
        print(f"  {name}: {type(error).__name__}: {str(error)[:300]!r}")
print(f"triton {triton.__version__}: {len(cases) - failed} passed, {failed} failed")
