"""Runs tutorials of Triton as they are, each in a process of its own, with what each checks: `triton_tutorials.py LAUNCHER… -- FILE…`.

Tensors are of PyTorch for CPUs, whose memory is registered with the driver when a kernel gets its address; what a tutorial asks of
`cuda` is answered by the driver, and cuBLAS is absent. No kernel is timed: the first choice of a tuner is taken, and reports of speed are left out.
"""

import ctypes
import pathlib
import runpy
import subprocess
import sys
import time

# What to call after a tutorial whose checks are functions, at sizes that take seconds, or to check where it only prints.
CHECKS = {
    "02": lambda names: [close(names["softmax"](names["x"]), names["torch"].softmax(names["x"], 1))],
    "04": lambda names: [close(names["output"], names["output2"]), differ(names["output"], names["output3"])],
    "06": lambda names: [
        names["test_op"](1, 2, 128, 64, causal, False, *mode)
        for causal in (False, True)
        for mode in (("fwd", "triton-fp8"), ("bwd", "triton-fp16"))
    ],
    "07": lambda names: [close(names["output_triton"], names["output_torch"])],
    "09": lambda names: [names["validate"](*size, names["torch"].float16) for size in ((32, 32, 32), (512, 512, 256))],
    "11": lambda names: [names["validate"](1024)],
}


def close(left, right):
    assert left.allclose(right, atol=1e-6), (left, right)


def differ(left, right):
    assert not left.equal(right), (left, right)


def stand_in():
    """Lets PyTorch for CPUs answer for `cuda`."""
    import torch
    import triton
    from torch.overrides import TorchFunctionMode
    from triton._C.libtriton import nvidia

    cuda = ctypes.CDLL("libcuda.so.1")
    kept = {}

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    class OnHost(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), named=None):
            named = dict(named or {})
            if "device" in named and torch.device(named["device"]).type == "cuda":
                named["device"] = "cpu"
            return function(*arguments, **named)

    address = torch.Tensor.data_ptr

    def registered(tensor):
        storage = tensor.untyped_storage()
        start, length = storage.data_ptr(), storage.nbytes()
        if length and start not in kept:
            call("cuMemHostRegister_v2", ctypes.c_void_p(start), ctypes.c_size_t(length), 0)
            kept[start] = storage  # so that nothing else gets the address
        return address(tensor)

    class Report:
        def __init__(self, *_):
            pass

        run = staticmethod(lambda *_, **__: None)

    def capability(_=None):
        major, minor = ctypes.c_int(), ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(major), 75, 0)
        call("cuDeviceGetAttribute", ctypes.byref(minor), 76, 0)
        return major.value, minor.value

    def properties(_=None):
        count = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(count), 16, 0)
        return type("Properties", (), {"multi_processor_count": count.value})

    def aligned(allocate):
        # Memory of the device begins at multiples of 256, memory of the host of 64.
        def allocate_aligned(size, alignment, stream):
            memory = allocate(size + alignment, alignment, stream)
            return memory[-memory.data_ptr() % alignment :]

        return allocate_aligned

    set_allocator = triton.set_allocator
    triton.set_allocator = lambda allocate: set_allocator(aligned(allocate))
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    torch.Tensor.data_ptr = registered
    torch.Tensor.is_cuda = True
    torch.version.hip = None
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_device = lambda _: None
    torch.cuda.get_device_capability = capability
    torch.cuda.get_device_properties = properties
    torch._C._cuda_getCurrentRawStream = lambda _: 0
    driver = triton.runtime.driver.active
    driver.get_active_torch_device = lambda: torch.device("cpu")
    of_device = driver.utils.get_device_properties
    driver.utils.get_device_properties = lambda index: of_device(index or 0)
    # PyTorch for CPUs sums gradients of halves in halves, to which no tolerance of a tutorial is meant.
    norm = torch.nn.functional.layer_norm
    torch.nn.functional.layer_norm = lambda x, shape, weight, bias, eps: norm(
        x.double(), shape, weight.double(), bias.double(), eps
    )
    nvidia.cublas.CublasLt = lambda _: None
    driver.get_benchmarker = lambda: lambda *_, **__: [0.0, 0.0, 0.0]
    triton.testing.perf_report = lambda _: Report
    OnHost().__enter__()


def run(file):
    stand_in()
    # Not all tutorials choose their data: layer norm's tolerance is a step and a half of its halves, and some data lies beyond.
    import torch

    torch.manual_seed(0)
    names = runpy.run_path(file)
    CHECKS.get(pathlib.Path(file).name[:2], lambda _: None)(names)


def main():
    end = sys.argv.index("--")
    launcher, files = sys.argv[1:end], sys.argv[end + 1 :]
    passed = 0
    for file in files:
        start = time.monotonic()
        done = subprocess.run(
            [*launcher, sys.executable, "-W", "ignore", __file__, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        right = done.returncode == 0 and "❌" not in done.stdout
        passed += right
        last = "" if right else ": " + " | ".join(done.stdout.splitlines()[-12:])
        print(f"  {pathlib.Path(file).name}: {'right' if right else 'wrong'}, {time.monotonic() - start:.0f} s{last}", flush=True)
    print(f"triton's tutorials: {passed} passed, {len(files) - passed} failed")


if "--" in sys.argv:
    main()
else:
    run(sys.argv[1])
