"""The tiled product in Triton: C = A · B, all row-major, of any size, in f32 (without TF32) or f16.

On a machine with a GPU, PyTorch and Triton:

    python3 phase5-bench/elsewhere/matmul.py

checks the product against f64 at ragged sizes, then times it beside torch.matmul. Without a GPU, TRITON_INTERPRET=1
before the command runs the checks alone, in Python. The course's own versions are
phase2-conv-bn/kernels/gemm_05_register_tile.cu for f32 and phase4-fusion/kernels/gemm_07_wgmma.cu for f16.
"""

import os
import sys

import torch
import triton
import triton.language as tl
from triton.testing import do_bench

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"

# ANCHOR: tiles
# The fastest of those that we tried on an H100; in f16, of those that fit into 99 KiB of shared memory.
TILES = {
    torch.float32: {"BM": 64, "BN": 64, "BK": 16, "num_warps": 4, "num_stages": 3},
    torch.float16: {"BM": 128, "BN": 256, "BK": 32, "num_warps": 8, "num_stages": 4},
}
# ANCHOR_END: tiles


# ANCHOR: kernel
@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(1) * BM + tl.arange(0, BM)[:, None]  # [BM, 1], of C
    columns = tl.program_id(0) * BN + tl.arange(0, BN)[None, :]  # [1, BN]
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, k, BK):
        across = first + tl.arange(0, BK)[None, :]  # [1, BK], along A's rows
        down = first + tl.arange(0, BK)[:, None]  # [BK, 1], along B's columns
        a_tile = tl.load(a + rows * k + across, mask=(rows < m) & (across < k), other=0.0)
        b_tile = tl.load(b + down * n + columns, mask=(down < k) & (columns < n), other=0.0)
        sums = tl.dot(a_tile, b_tile, sums, input_precision="ieee")  # f32 without TF32
    tl.store(c + rows * n + columns, sums.to(c.dtype.element_ty), mask=(rows < m) & (columns < n))
# ANCHOR_END: kernel


# ANCHOR: launch
def product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor):
    """Queues c = a · b and returns the compiled kernel."""
    (m, k), n = a.shape, b.shape[1]
    assert b.shape[0] == k and c.shape == (m, n), "a must be [m, k], b [k, n] and c [m, n]"
    assert a.is_contiguous() and b.is_contiguous() and c.is_contiguous(), "the kernel takes row-major matrices"
    assert max(m * k, k * n, m * n) < 2**31, "the kernel's indices have 32 bits"
    tile = TILES[a.dtype]
    return matmul[triton.cdiv(n, tile["BN"]), triton.cdiv(m, tile["BM"])](a, b, c, m, n, k, **tile)
# ANCHOR_END: launch


def count_wrong(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> int:
    """Elements of c further from the f64 product than the rounding of k sums, and of the result, allows."""
    exact = a.double() @ b.double()
    allowed = a.shape[1] * 2**-23 * (a.double().abs() @ b.double().abs())
    if c.dtype == torch.float16:
        allowed += 2**-11 * exact.abs() + 2**-25  # half a step of f16, normal or not
    return int((~((c.double() - exact).abs() <= allowed)).sum())  # NaN is never within bounds


def operands(m: int, n: int, k: int, dtype: torch.dtype):
    """Random a and b, and a c of NaN."""
    def uniform(rows, columns):
        return (torch.rand(rows, columns, device=DEVICE) * 2 - 1).to(dtype)

    return uniform(m, k), uniform(k, n), torch.full((m, n), torch.nan, device=DEVICE, dtype=dtype)


def check(m: int, n: int, k: int, dtype: torch.dtype):
    """Ends the program if an element is wrong."""
    a, b, c = operands(m, n, k, dtype)
    product(a, b, c)
    wrong = count_wrong(c, a, b)
    if wrong:
        sys.exit(f"{dtype}, {m} × {n} × {k}: {wrong} of {m * n} elements are wrong")


def compare(size: int, dtype: torch.dtype):
    """Times both products, and says which instructions Triton chose."""
    a, b, c = operands(size, size, size, dtype)
    ptx = product(a, b, c).asm["ptx"]
    names = [name for name in ("fma.rn.f32", "wgmma.mma_async", "mma.sync", "cp.async.cg") if name in ptx]
    print(f"{dtype}, {size} × {size} × {size}:", ", ".join(f"{ptx.count(name)} × {name}" for name in names))
    for name, run in {"Triton": lambda: product(a, b, c), "torch.matmul": lambda: torch.matmul(a, b, out=c)}.items():
        ms = do_bench(run, return_mode="median")
        print(f"    {name:13}{ms:8.3f} ms {2 * size**3 / ms / 1e9:8.1f} TFLOP/s")


def main():
    if not INTERPRETED and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU; with TRITON_INTERPRET=1 the checks need none")
    device = "interpreted" if INTERPRETED else torch.cuda.get_device_name()
    print(f"{device}, PyTorch {torch.__version__}, Triton {triton.__version__}")
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    sizes = [(1, 1, 1), (33, 65, 129), (300, 200, 77)] + ([] if INTERPRETED else [(4096, 4096, 4096)])
    for dtype in TILES:
        for m, n, k in sizes:
            check(m, n, k, dtype)
    print(f"every element is right, at {len(sizes)} sizes, in f32 and f16")
    if not INTERPRETED:
        for dtype in TILES:
            compare(4096, dtype)


if __name__ == "__main__":
    main()
