"""Collects the kernels that a Python script launches through Triton or PyTorch's compiler, as cases for ptx-sim.

Needs an NVIDIA GPU, PyTorch (2.11 was tried) and Triton (3.6):

    python3 collect.py OUT SCRIPT.py [ARGUMENT…]                 # with a GPU
    for case in OUT/*/case.toml; do ptx-sim case "$case"; done   # without one

Each kernel becomes a folder of OUT: `kernel.ptx`, the raw bytes of its buffers before the launch, those of the buffers it changed, and
`case.toml`, which `ptx-sim case` executes and compares. A kernel that is launched again with other arguments is recorded once.
"""

import re
import runpy
import struct
import sys
from collections import Counter
from pathlib import Path

import torch
import torch._inductor.config as inductor
import triton
from triton.backends.nvidia.driver import CudaLauncher
from triton.compiler.compiler import CompiledKernel

# Triton's names of integers, as ptx-sim has them.
INTEGERS = {"i1": "u8"} | {f"i{bits}": f"s{bits}" for bits in (8, 16, 32, 64)} | {f"u{bits}": f"u{bits}" for bits in (8, 16, 32, 64)}
ELEMENTS = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int8: "s8", torch.int16: "s16", torch.int32: "s32", torch.int64: "s64",
    torch.uint8: "u8", torch.bool: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float8_e4m3fn: "b8", torch.float8_e5m2: "b8",
}
# Results of approximate functions, and of sums in another order, may differ by this much: absolute, relative.
TOLERANCE = {"f64": (1e-9, 1e-9), "f32": (2e-4, 2e-3), "f16": (4e-3, 1e-2), "bf16": (3e-2, 3e-2)}


def bytes_of(storage):
    return torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage).cpu().numpy().tobytes()


def argument(ty, value, buffers):
    """A kernel's argument as ptx-sim has it; memory is added to `buffers`: name, storage and type of an element by address."""
    if ty.startswith("*"):
        if value is None:
            return "ptr:null"
        storage = value.untyped_storage()
        at = storage.data_ptr()
        name, *_ = buffers.setdefault(at, (f"b{len(buffers)}", storage, ELEMENTS[value.dtype]))
        return f"ptr:{name}+{value.data_ptr() - at}".removesuffix("+0")
    if ty == "fp32":
        return f"b32:{struct.unpack('<I', struct.pack('<f', value))[0]:#x}"
    if ty == "fp64":
        return f"b64:{struct.unpack('<Q', struct.pack('<d', value))[0]:#x}"
    if ty in ("fp16", "bf16"):
        dtype = torch.float16 if ty == "fp16" else torch.bfloat16
        return f"b16:{torch.tensor(value, dtype=dtype).view(torch.int16).item() & 0xFFFF:#x}"
    return f"{INTEGERS[ty]}:{int(value)}"


class Recorder:
    def __init__(self, out):
        self.out = out
        self.kernels = {}  # by handle of the loaded function
        self.seen = set()
        self.skipped = Counter()

    def launch(self, launcher, grid, function, args, run):
        kernel = self.kernels.get(function)
        if kernel is None or kernel.asm["ptx"] in self.seen:
            return run()
        self.seen.add(kernel.asm["ptx"])
        signature = list(launcher.recorded_signature.values())
        if any(str(ty).startswith("tensordesc") or ty == "nvTmaDesc" for ty in signature):
            self.skipped["tensor maps made by the host"] += 1
            return run()
        if len(args) == len(signature):
            args = [value for ty, value in zip(signature, args) if ty != "constexpr"]
        passed = [ty for ty in signature if ty != "constexpr"]
        if len(args) != len(passed):
            self.skipped[f"{len(args)} arguments for {len(passed)} parameters"] += 1
            return run()
        buffers = {}
        arguments = [argument(ty, value, buffers) for ty, value in zip(passed, args)]
        contents = lambda: [(name, ty, bytes_of(storage)) for name, storage, ty in buffers.values()]
        torch.cuda.synchronize()
        before = contents()
        run()
        torch.cuda.synchronize()
        self.write(kernel, launcher, grid, arguments, before, contents())

    def write(self, kernel, launcher, grid, arguments, before, after):
        ptx, metadata = kernel.asm["ptx"], kernel.metadata
        folder = self.out / f"{len(self.seen):03}-{metadata.name}"
        folder.mkdir(parents=True)
        (folder / "kernel.ptx").write_text(ptx)
        lines = [f"# Triton {triton.__version__}, PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", 'ptx = "kernel.ptx"', ""]
        for name, ty, content in before:
            (folder / f"{name}.bin").write_bytes(content)
            lines += [f"[buffer.{name}]", f'type = "{ty}"', f'file = "{name}.bin"', ""]
        ctas = getattr(metadata, "num_ctas", 1)
        # Scratch memory: of the grid, and of the profiler.
        if launcher.global_scratch_size:
            size = launcher.global_scratch_size * launcher.num_ctas * grid[0] * grid[1] * grid[2]
            lines += ["[buffer.scratch]", 'type = "u8"', f"zeros = {size}", ""]
            arguments.append("ptr:scratch")
        head = ptx[ptx.index(".entry"):]
        arguments += ["ptr:null"] * (len(re.findall(r"\.param\s", head[:head.index(")")])) - len(arguments))
        lines += ["[[launch]]", f'kernel = "{metadata.name}"', f"shared = {metadata.shared}"]
        lines += [f"grid = [{grid[0] * ctas}, {grid[1]}, {grid[2]}]", f"block = [{metadata.num_warps * 32}, 1, 1]"]
        if ctas > 1:
            lines += [f"cluster = [{', '.join(map(str, getattr(metadata, 'cluster_dims', (1, 1, 1))))}]"]
        if launcher.launch_cooperative_grid:
            lines += ["cooperative = true"]
        lines += ["args = [" + ", ".join(f'"{argument}"' for argument in arguments) + "]", ""]
        for (name, ty, old), (_, _, new) in zip(before, after):
            if old != new:
                (folder / f"{name}.expected.bin").write_bytes(new)
                lines += ["[[compare]]", f'buffer = "{name}"', f'file = "{name}.expected.bin"']
                if ty in TOLERANCE:
                    lines += [f"absolute = {TOLERANCE[ty][0]}", f"relative = {TOLERANCE[ty][1]}"]
        (folder / "case.toml").write_text("\n".join([*lines, ""]))

    def install(self):
        made, called, loaded = CudaLauncher.__init__, CudaLauncher.__call__, CompiledKernel._init_handles

        def make(launcher, source, metadata):
            made(launcher, source, metadata)
            launcher.recorded_signature = dict(source.signature)

        def call(launcher, x, y, z, stream, function, *args):
            # Before the kernel's own arguments: its metadata, the launch's, and two hooks.
            return self.launch(launcher, (x, y, z), function, args[4:], lambda: called(launcher, x, y, z, stream, function, *args))

        def load(kernel):
            loaded(kernel)
            self.kernels[kernel.function] = kernel

        CudaLauncher.__init__, CudaLauncher.__call__, CompiledKernel._init_handles = make, call, load


if __name__ == "__main__":
    out, script, *sys.argv[1:] = sys.argv[1:]
    sys.argv[0] = script
    # Each kernel of PyTorch's compiler is then loaded and launched by Triton's own launcher, which is where it is recorded.
    inductor.use_static_cuda_launcher = False
    recorder = Recorder(Path(out))
    recorder.install()
    runpy.run_path(script, run_name="__main__")
    print(f"{len(list(Path(out).glob('*/case.toml')))} kernels; skipped: {dict(recorder.skipped)}")
