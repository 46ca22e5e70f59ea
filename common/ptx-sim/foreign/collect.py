"""Collects kernels of Triton and of PyTorch's compiler, with their inputs and outputs, as cases for ptx-sim.

Needs an NVIDIA GPU, PyTorch and Triton:

    python3 collect.py OUT [--only NAME] [--list]

Every kernel that is launched within `record(...)` becomes a folder of OUT: `kernel.ptx`, the raw bytes of its buffers before the launch,
those of the buffers it changed, and `case.toml`, which `ptx-sim case case.toml` executes and compares. A kernel that is launched
again with other arguments is recorded once. Shapes are small, so that all cases take the simulator a few minutes, and ragged
where a kernel masks.
"""

import argparse
import hashlib
import re
import struct
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path

import torch
import triton
from triton.backends.nvidia import driver as nvidia
from triton.compiler import compiler

from kernels import WORKLOADS as TRITON
from compiled import WORKLOADS as INDUCTOR

# --- Recording --------------------------------------------------------------------------------------------------------

TYPES = {  # Triton's name of a scalar: ptx-sim's, and how its value becomes bits if ptx-sim takes bits
    "i1": "u8", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64",
    "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64",
    "fp16": "b16", "bf16": "b16", "fp32": "b32", "fp64": "b64",
}
ELEMENTS = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int8: "s8", torch.int16: "s16", torch.int32: "s32", torch.int64: "s64",
    torch.uint8: "u8", torch.bool: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float8_e4m3fn: "b8", torch.float8_e5m2: "b8",
}
# Results of approximate functions, and of sums in another order, may differ by this much: absolute, relative.
TOLERANCE = {"f64": (1e-9, 1e-9), "f32": (2e-4, 2e-3), "f16": (4e-3, 1e-2), "bf16": (3e-2, 3e-2)}


class Recorder:
    def __init__(self, out):
        self.out = out
        self.workload = None
        self.seen = set()
        self.kernels = {}  # by handle of the loaded function
        self.skipped = {}
        self.cases = 0

    def skip(self, why):
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def launch(self, launcher, grid, function, args, run):
        kernel = self.kernels.get(function)
        if self.workload is None or kernel is None:
            return run()
        ptx = kernel.asm["ptx"]
        key = hashlib.sha256(ptx.encode()).hexdigest()
        if key in self.seen:
            return run()
        signature = list(launcher.recorded_signature.items())
        if any(str(ty).startswith("tensordesc") or ty == "nvTmaDesc" for _, ty in signature):
            self.skip("tensor maps made by the host")
            return run()
        self.seen.add(key)
        passed = [(name, ty) for name, ty in signature if ty != "constexpr"]
        if len(args) == len(signature):
            args = [value for (_, ty), value in zip(signature, args) if ty != "constexpr"]
        if len(args) != len(passed):
            self.skip(f"{len(args)} arguments for {len(passed)} parameters")
            return run()
        names, buffers, arguments = {}, {}, []
        for (name, ty), value in zip(passed, args):
            arguments.append(self.argument(ty, value, names, buffers))
        torch.cuda.synchronize()
        before = {name: to_bytes(buffer) for name, (buffer, _) in buffers.items()}
        run()
        torch.cuda.synchronize()
        after = {name: to_bytes(buffer) for name, (buffer, _) in buffers.items()}
        # Scratch memory: of the grid, and of the profiler.
        parameters = len(re.findall(r"\.param\s", ptx[ptx.index(".entry"):ptx.index(")", ptx.index(".entry"))]))
        scratch = []
        if launcher.global_scratch_size:
            bytes_ = launcher.global_scratch_size * launcher.num_ctas * grid[0] * grid[1] * grid[2]
            scratch.append(bytes_)
            arguments.append("ptr:scratch")
        arguments += ["ptr:null"] * (parameters - len(arguments))
        self.write(kernel, launcher, grid, arguments, buffers, before, after, scratch)

    def argument(self, ty, value, names, buffers):
        if ty.startswith("*"):
            if value is None:
                return "ptr:null"
            storage = value.untyped_storage()
            at = storage.data_ptr()
            if at not in names:
                names[at] = f"b{len(names)}"
                buffers[names[at]] = (storage, ELEMENTS[value.dtype])
            offset = value.data_ptr() - at
            return f"ptr:{names[at]}" + (f"+{offset}" if offset else "")
        if ty == "fp32":
            return f"b32:{struct.unpack('<I', struct.pack('<f', value))[0]:#x}"
        if ty == "fp64":
            return f"b64:{struct.unpack('<Q', struct.pack('<d', value))[0]:#x}"
        if ty in ("fp16", "bf16"):
            dtype = torch.float16 if ty == "fp16" else torch.bfloat16
            bits = torch.tensor(value, dtype=dtype).view(torch.int16).item() & 0xFFFF
            return f"b16:{bits:#x}"
        return f"{TYPES[ty]}:{int(value)}"

    def write(self, kernel, launcher, grid, arguments, buffers, before, after, scratch):
        name = f"{self.workload}-{self.cases:03}"
        folder = self.out / name
        folder.mkdir(parents=True)
        self.cases += 1
        ptx = kernel.asm["ptx"]
        (folder / "kernel.ptx").write_text(ptx)
        metadata = kernel.metadata
        lines = [f"# {metadata.name}, Triton {triton.__version__}, PyTorch {torch.__version__}, {torch.cuda.get_device_name()}"]
        lines += ['ptx = "kernel.ptx"', ""]
        for at, (_, ty) in buffers.items():
            (folder / f"{at}.bin").write_bytes(before[at])
            lines += [f"[buffer.{at}]", f'type = "{ty}"', f'file = "{at}.bin"', ""]
        for bytes_ in scratch:
            lines += ["[buffer.scratch]", 'type = "u8"', f"zeros = {bytes_}", ""]
        cluster = getattr(metadata, "cluster_dims", (1, 1, 1))
        ctas = getattr(metadata, "num_ctas", 1)
        lines += ["[[launch]]", f'kernel = "{metadata.name}"']
        lines += [f"grid = [{grid[0] * ctas}, {grid[1]}, {grid[2]}]", f"block = [{metadata.num_warps * 32}, 1, 1]"]
        lines += [f"shared = {metadata.shared}"]
        if ctas > 1:
            lines += [f"cluster = [{', '.join(str(extent) for extent in cluster)}]"]
        if launcher.launch_cooperative_grid:
            lines += ["cooperative = true"]
        lines += ["args = [" + ", ".join(f'"{argument}"' for argument in arguments) + "]", ""]
        for at, (_, ty) in buffers.items():
            if before[at] != after[at]:
                (folder / f"{at}.expected.bin").write_bytes(after[at])
                lines += ["[[compare]]", f'buffer = "{at}"', f'file = "{at}.expected.bin"']
                if ty in TOLERANCE:
                    lines += [f"absolute = {TOLERANCE[ty][0]}", f"relative = {TOLERANCE[ty][1]}"]
                lines += [""]
        (folder / "case.toml").write_text("\n".join(lines))


def to_bytes(storage):
    return torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage).cpu().numpy().tobytes()


def install(recorder):
    made, called, loaded = nvidia.CudaLauncher.__init__, nvidia.CudaLauncher.__call__, compiler.CompiledKernel._init_handles

    def make(self, src, metadata):
        made(self, src, metadata)
        self.recorded_signature = dict(src.signature)

    def call(self, x, y, z, stream, function, *args):
        run = lambda: called(self, x, y, z, stream, function, *args)
        # Before the kernel's own arguments: its metadata, the launch's, and two hooks.
        return recorder.launch(self, (x, y, z), function, args[4:], run)

    def load(self):
        loaded(self)
        recorder.kernels[self.function] = self

    nvidia.CudaLauncher.__init__, nvidia.CudaLauncher.__call__ = make, call
    compiler.CompiledKernel._init_handles = load


@contextmanager
def recording(recorder, name):
    recorder.workload = name
    try:
        yield
    finally:
        recorder.workload = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the cases; must not exist")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--list", action="store_true", help="list the workloads and stop")
    options = parser.parse_args()
    workloads = [(name, run) for name, run in [*TRITON.items(), *INDUCTOR.items()] if options.only in name]
    if options.list:
        print("\n".join(name for name, _ in workloads))
        return 0
    if not torch.cuda.is_available():
        print("collect.py: PyTorch finds no CUDA device", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True)
    recorder = Recorder(options.out)
    install(recorder)
    failed = []
    for name, run in workloads:
        torch.manual_seed(0)
        before = recorder.cases
        try:
            run(lambda: recording(recorder, name))
        except Exception as error:  # a workload that this version cannot run is not worth losing the rest
            failed.append(name)
            traceback.print_exc(limit=-2)
        print(f"{name}: {recorder.cases - before} kernels", flush=True)
    print(f"{recorder.cases} kernels of {len(workloads)} workloads; failed: {failed}; skipped: {recorder.skipped}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
