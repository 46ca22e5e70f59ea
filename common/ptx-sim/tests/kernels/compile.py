"""Compiles the .cu files named (or those of the tests and benchmarks) to .ptx beside them, with the NVRTC of CUDA 13.0.

    pip install nvidia-cuda-nvrtc==13.0.*
    python compile.py [FILE.cu ...]
"""

import ctypes
import pathlib
import re
import sys

OPTIONS = ["--generate-line-info"]
# What a file's instructions need; compute_75 is enough for the others.
ARCHITECTURES = {"profile.cu": "compute_80", "sanitise.cu": "compute_80", "idioms.cu": "compute_90", "cooperative.cu": "compute_80",
                 "clusters.cu": "compute_90", "wgmma.cu": "compute_90a", "async.cu": "compute_90a",
                 "pipeline.cu": "compute_90a", "wild.cu": "compute_90a", "tcgen05.cu": "compute_100a",
                 "cancel.cu": "compute_100a"}


def include_paths():
    """CUDA's own headers and those of libcu++, if their packages are there: cooperative.cu needs them."""
    import nvidia.cu13

    include = pathlib.Path(list(nvidia.cu13.__path__)[0]) / "include"
    return [f"--include-path={path}" for path in (include, include / "cccl") if path.is_dir()]


def open_nvrtc():
    import nvidia.cu13

    libraries = pathlib.Path(list(nvidia.cu13.__path__)[0]) / "lib"
    ctypes.CDLL(str(libraries / "libnvrtc-builtins.so.13.0"), ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(libraries / "libnvrtc.so.13"))


def text_of(nvrtc, what, program):
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.value.decode()


def compile_file(nvrtc, path):
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), path.read_bytes(), path.name.encode(), 0, None, None)
    texts = [*OPTIONS, *include_paths(), "--gpu-architecture=" + ARCHITECTURES.get(path.name, "compute_75")]
    options = (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])
    if nvrtc.nvrtcCompileProgram(program, len(texts), options):
        sys.exit(text_of(nvrtc, "ProgramLog", program))
    # NVRTC writes absolute paths; what is kept must not depend on where it was made.
    ptx = re.sub(r'(\.file\s+\d+\s+")[^"]*/', r"\1", text_of(nvrtc, "PTX", program))
    path.with_suffix(".ptx").write_text(ptx)


here = pathlib.Path(__file__).parent
files = [pathlib.Path(name) for name in sys.argv[1:]] or [*here.glob("*.cu"), *(here / "../../benches").glob("*.cu")]
nvrtc = open_nvrtc()
for file in files:
    compile_file(nvrtc, file)
