"""A kernel of the course as a PyTorch operator: softmax, with its gradient, for eager code and torch.compile.

On a machine with a GPU, PyTorch (2.9 or later) and CUDA's headers (nvcc in the path, or CUDA_HOME):

    python3 phase5-bench/elsewhere/from_torch.py

checks the operator against torch.softmax, then times both.
"""

import functools
import sys
import time
from pathlib import Path

import torch
from triton.testing import do_bench

KERNELS = Path(__file__).resolve().parents[2] / "phase3-all-layers" / "kernels"
THREADS = 256  # as in rows.cuh


# ANCHOR: load
@functools.cache  # compiled once for each device
def load(name: str, device_index: int):
    source = (KERNELS / "softmax_02_online.cu").read_text()
    with torch.cuda.device(device_index):
        return torch.cuda._compile_kernel(source, name, cuda_include_dirs=[str(KERNELS)])


# PyTorch 2.11 opens libcuda anew for each launch; this keeps the first.
torch.cuda._utils._get_cuda_library = functools.cache(torch.cuda._utils._get_cuda_library)
# ANCHOR_END: load


# ANCHOR: operator
def launch_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, queued on PyTorch's current stream."""
    torch._check(x.is_cuda and x.dtype == torch.float32 and x.dim() > 0, lambda: "softmax takes f32 rows on a GPU")
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y  # CUDA has no empty grids
    columns = x.shape[-1]
    rows = x.numel() // columns
    group, blocks = ("warp", -(-rows // 8)) if columns <= 512 else ("block", rows)
    by_16_bytes = columns % 4 == 0 and x.data_ptr() % 16 == 0  # a slice may begin at any element
    kernel = load(f"softmax_{group}" if by_16_bytes else f"softmax_{group}_any", x.device.index)
    with torch.cuda.device(x.device):
        kernel((blocks, 1, 1), (THREADS, 1, 1), [x, y, rows, columns])
    return y


softmax = torch.library.custom_op("warp_by_warp::softmax", launch_softmax, mutates_args=())


@softmax.register_fake  # shapes alone, for torch.compile
def _(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)
# ANCHOR_END: operator


# ANCHOR: gradient
def keep_output(ctx, inputs, output):
    ctx.save_for_backward(output)


def backward(ctx, gradient):
    (y,) = ctx.saved_tensors
    return y * (gradient - (gradient * y).sum(-1, keepdim=True))


softmax.register_autograd(backward, setup_context=keep_output)
# ANCHOR_END: gradient


def check():
    """Compares values, views and gradients with PyTorch's own, and the operator's registration with its rules."""
    for shape in [(1, 1), (5, 33), (3, 7, 512), (9, 513), (4, 1000), (2, 4096), (0, 8)]:
        x = torch.randn(shape, device="cuda") * 30
        torch.testing.assert_close(softmax(x), torch.softmax(x, -1), rtol=1e-5, atol=1e-7)
    x = torch.randn(65, 64, device="cuda") * 30
    # The first two are not contiguous, the last does not begin at a multiple of 16 bytes.
    for view in (x[:, 1:], x.t(), x.flatten()[1:4097].view(64, 64)):
        torch.testing.assert_close(softmax(view), torch.softmax(view, -1), rtol=1e-5, atol=1e-7)
    torch.library.opcheck(softmax, (torch.randn(8, 100, device="cuda", requires_grad=True),))

    def network(f):
        return lambda x: (f(x * 2 + 1) * 3).square().sum()

    x = torch.randn(64, 1000, device="cuda", requires_grad=True)
    (expected,) = torch.autograd.grad(network(lambda x: torch.softmax(x, -1))(x), x)
    for run in (network(softmax), torch.compile(network(softmax), fullgraph=True)):
        (gradient,) = torch.autograd.grad(run(x), x)
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def host_us(run) -> float:
    """The host's time of a call, in microseconds: the best of five averages."""
    def average(calls=1000):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        elapsed = time.perf_counter() - start
        torch.cuda.synchronize()
        return elapsed / calls * 1e6

    return min(average() for _ in range(5))


def compare():
    """Times a large softmax on the GPU, and a small one on the host."""
    large, small = torch.randn(16384, 4096, device="cuda"), torch.randn(8, 128, device="cuda")

    def library(x):
        return torch.softmax(x, -1)

    print("16384 × 4096, on the GPU:")
    for name, f in {"torch.softmax": library, "ours": softmax}.items():
        ms = do_bench(lambda: f(large), return_mode="median")
        print(f"    {name:24}{ms:.3f} ms {2 * large.nbytes / ms / 1e6:5.0f} GB/s")
    print("8 × 128, the host's time per call:")
    for name, f in {"torch.softmax": library, "ours": softmax, "ours, without custom_op": launch_softmax}.items():
        print(f"    {name:24}{host_us(lambda: f(small)):5.1f} µs")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            softmax(small)
    print(f"    {'ours, 10 in a graph':24}{host_us(graph.replay) / 10:5.1f} µs")


def main():
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    torch.manual_seed(1)
    check()
    print("right: values, views, gradients, and all of it under torch.compile")
    compare()


if __name__ == "__main__":
    main()
