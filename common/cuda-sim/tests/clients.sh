#!/bin/bash
# Runs programs of others in Python and Rust over cuda-sim, and prints a line with counts for each: `clients.sh FOLDER [CLIENT…]`, where a
# CLIENT is one of the functions below. Each has an environment of its own under FOLDER, which is kept for the next time.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift
cargo build --quiet --package cuda-sim --manifest-path "$here/../Cargo.toml"
target=$(cargo metadata --format-version 1 --no-deps --manifest-path "$here/../Cargo.toml" | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
cuda_sim=$target/debug/cuda-sim
# A test that wants more memory than machines have is to fail alone.
[ "$(uname)" != Linux ] || ulimit -v 12000000

# install CLIENT PACKAGE…
install() {
    local name=$1
    shift
    [ -d "$folder/$name" ] || python3 -m venv "$folder/$name"
    "$folder/$name/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# The client's folder of the CUDA toolkit.
toolkit() {
    echo "$folder/$1"/lib/python3*/site-packages/nvidia/cu13
}

# sources CLIENT CRATE VERSION: the sources of a crate, as the client's folder `source`.
sources() {
    local fetch=$folder/$1/fetch
    [ ! -d "$folder/$1/source" ] || return 0
    cargo init --quiet --vcs none --name fetch "$fetch"
    cargo add --quiet --manifest-path "$fetch/Cargo.toml" "$2@=$3"
    cargo fetch --quiet --manifest-path "$fetch/Cargo.toml"
    cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$2-$3" "$folder/$1/source"
}

# simulated CLIENT ARGUMENT…: Cargo in the client's sources, whose programs cuda-sim runs.
simulated() {
    local cuda target=$folder/$1/target
    cuda=$(toolkit "$1")
    cd "$folder/$1/source"
    shift
    PATH=$cuda/bin:$PATH CUDA_PATH=$cuda LD_LIBRARY_PATH=$cuda/lib CARGO_TARGET_DIR=$target \
        cargo --config "target.'cfg(all())'.runner = ['$cuda_sim', '--devices=2']" "$@"
}

# numba-cuda's own tests. Without nvJitLink, whose output is machine code, it links by the driver.
numba() {
    install numba 'numba-cuda[cu13]' pytest psutil cffi filecheck ml_dtypes scipy
    "$folder/numba/bin/pip" uninstall --quiet --yes nvidia-nvjitlink
    "$folder/numba/bin/python" "$here/clients/numba_tests.py" "$cuda_sim"
}

# Triton's own tutorials, as they were when it became 3.6, with a ptxas that copies its input; all but the tenth, whose scaled products
# are of Blackwell's and not supported.
triton() {
    install triton --extra-index-url https://download.pytorch.org/whl/cpu triton==3.6.0 torch numpy matplotlib pandas tabulate pytest
    local source=$folder/triton/source
    if [ ! -d "$source" ]; then
        git clone --quiet --filter=blob:none --no-checkout https://github.com/triton-lang/triton "$source"
        git -C "$source" checkout --quiet 6cc4505 -- python/tutorials third_party/nvidia/backend/lib
    fi
    cat >"$folder/ptxas" <<'END'
#!/bin/bash
[ "$1" != --version ] || exec echo 'Cuda compilation tools, release 13.0, V13.0.88'
while [ $# -gt 0 ]; do
    case $1 in
    -o) shift && output=$1 ;;
    *.ptx) input=$1 ;;
    esac
    shift
done
cp "$input" "$output"
END
    chmod +x "$folder/ptxas"
    TRITON_CACHE_DIR=$folder/triton/cache TRITON_PTXAS_PATH=$folder/ptxas TRITON_PTXAS_BLACKWELL_PATH=$folder/ptxas \
        "$folder/triton/bin/python" "$here/clients/triton_tutorials.py" "$cuda_sim" -- "$source"/python/tutorials/{0,11}*.py
}

# PyCUDA's own tests, with an nvcc that keeps PTX where PyCUDA asks for machine code.
pycuda() {
    install pycuda numpy pytest mako setuptools wheel "cuda-toolkit[nvcc,cudart,crt,cccl,nvvm,profiler,curand]==13.0.*"
    local cuda source=$folder/pycuda/source
    cuda=$(toolkit pycuda)
    if [ ! -d "$source" ]; then
        "$folder/pycuda/bin/pip" download --quiet --no-build-isolation --no-deps --no-binary pycuda --dest "$folder/pycuda" pycuda
        mkdir "$source"
        tar -x -f "$folder"/pycuda/pycuda-*.tar.gz -C "$source" --strip-components 1
        mkdir -p "$folder/pycuda/link"
        ln -sf "$target/debug/libcuda_sim.so" "$folder/pycuda/link/libcuda.so"
        ln -sf libcudart.so.13 "$cuda/lib/libcudart.so"
        ln -sf libcurand.so.10 "$cuda/lib/libcurand.so"
        (
            cd "$source"
            # PyCUDA's own random numbers, and all that is tested with them, want cuRAND's version.
            "$folder/pycuda/bin/python" configure.py --cuda-root="$cuda" --cuda-inc-dir="$cuda/include" \
                --cudadrv-lib-dir="$folder/pycuda/link" --cudart-lib-dir="$cuda/lib" --curand-lib-dir="$cuda/lib"
            CFLAGS=-O0 "$folder/pycuda/bin/pip" install --quiet --no-build-isolation .
        )
    fi
    # PyCUDA looks for libraries beside it.
    mkdir -p "$folder/pycuda/toolkit/bin" "$folder/pycuda/cache"
    ln -sfn "$cuda/lib" "$folder/pycuda/toolkit/lib64"
    cat >"$folder/pycuda/toolkit/bin/nvcc" <<END
#!/bin/bash
"$cuda/bin/nvcc" "\${@/#--cubin/--ptx}" || exit
[[ " \$* " != *" --cubin "* ]] || mv kernel.ptx kernel.cubin
END
    chmod +x "$folder/pycuda/toolkit/bin/nvcc"
    # Away from the sources, whose folder `pycuda` hides what is installed.
    mkdir -p "$folder/pycuda/tests"
    cp "$source"/test/*.py "$folder/pycuda/tests"
    # Without tests of arrays of 4 and 8 GiB: they take up to 20 GB of memory, and hours.
    (
        cd "$folder/pycuda/tests"
        export PYCUDA_CACHE_DIR=$folder/pycuda/cache PATH=$folder/pycuda/toolkit/bin:$PATH LD_LIBRARY_PATH=$cuda/lib
        "$cuda_sim" "$folder/pycuda/bin/python" -m pytest -q --tb=line -k 'not big_array and not 8gb' . || true
    ) | sed -E "s/^[0-9]+ (failed|passed).*/$(basename "$folder"/pycuda/pycuda-*.tar.gz .tar.gz): &/"
}

# cudarc's own tests of the driver and of NVRTC, and its examples but for those of CUPTI and cuFile.
cudarc() {
    install cudarc 'cuda-toolkit[nvrtc,cudart]==13.0.*'
    sources cudarc cudarc 0.19.10
    local options=(--quiet --no-default-features --features 'std driver runtime nvrtc fallback-dynamic-loading cuda-13000')
    (simulated cudarc test "${options[@]}" --lib || true)
    local example all=0 right=0
    for example in "$folder"/cudarc/source/examples/*[!i].rs; do
        example=$(basename "$example" .rs)
        [ "$example" != cufile-copy ] || continue
        all=$((all + 1))
        ! (simulated cudarc run "${options[@]}" --example "$example" >/dev/null) || right=$((right + 1))
    done
    echo "cudarc: $right of $all examples"
}

# source_of CLIENT REPOSITORY COMMIT: a repository of GitHub, as the client's folder `source`.
source_of() {
    local source=$folder/$1/source
    mkdir -p "$folder/$1"
    [ -d "$source" ] || git clone --quiet --filter=blob:none --no-checkout "https://github.com/$2" "$source"
    git -C "$source" checkout --quiet "$3"
}

# for_blackwell ARGUMENT…: nvcc, whose program keeps its PTX and loads our driver.
for_blackwell() {
    local cuda link=$folder/nvcc/link
    install nvcc 'cuda-toolkit[nvcc,cudart,crt,cccl,nvvm,curand]==13.0.*'
    cuda=$(toolkit nvcc)
    mkdir -p "$link"
    ln -sf "$target/debug/libcuda_sim.so" "$link/libcuda.so"
    ln -sf "$cuda/lib/libcudart.so.13" "$link/libcudart.so"
    PATH=$cuda/bin:$PATH nvcc -w --expt-relaxed-constexpr -lineinfo -cudart shared -cudadevrt none \
        -gencode arch=compute_100a,code=compute_100a -I "$cuda/include/cccl" -L "$link" "$@" -lcuda
}

# judge NAME SUCCESS PROGRAM…: runs a program, which is right if a line of its output matches SUCCESS, and then sanitises it.
judge() {
    local name=$1 success=$2
    shift 2
    if "$cuda_sim" --compute 10.0 "$@" | grep -E "$success" >/dev/null; then
        right=$((right + 1))
        "$cuda_sim" --sanitize --compute 10.0 "$@" >/dev/null || found+=("$name")
    else
        wrong+=("$name")
    fi
}

# said WHAT: the counts of `judge`.
said() {
    echo "$1: $right right${wrong[*]:+; not ${wrong[*]}}${found[*]:+; findings in ${found[*]}}"
}

# Products for Blackwell's tensor cores, from gau-nernst/learn-cuda; PyTorch, which their files name, is not needed.
blackwell() {
    local source=$folder/blackwell/source/02e_matmul_sm100 version right=0 wrong=() found=()
    source_of blackwell gau-nernst/learn-cuda 1454f8b
    mkdir -p "$folder/blackwell/stub/torch"
    printf '#include <cuda_bf16.h>\n#include <cstdlib>\n#include <tuple>\n#define TORCH_CHECK(ok, ...) if (!(ok)) exit(3)\n' \
        >"$folder/blackwell/stub/torch/library.h"
    for version in 0 1a 1b 2a 2b 3 4 5 6 7a 7b 7c; do
        for_blackwell -std=c++17 -I "$folder/blackwell/stub" -DKERNEL=matmul_v$version -o "$folder/blackwell/v$version" \
            "$here/clients/blackwell.cu" "$source/matmul_v${version%[abc]}.cu" || true
        judge "v$version" '^right$' "$folder/blackwell/v$version"
    done
    said 'learn-cuda 1454f8b, 02e_matmul_sm100'
}

# ThunderKittens' ladder of products for Blackwell, of 512³ instead of 4096³ (its first level: 256³ instead of 1024³).
kittens() {
    local source=$folder/kittens/source level right=0 wrong=() found=()
    source_of kittens HazyResearch/ThunderKittens 0b55588
    sed -i 's/run_benchmark(4096)/run_benchmark(512)/; s/run_benchmark(1024)/run_benchmark(256)/' "$source"/kernels/gemm/educational_b200/*.cu
    for level in 01 02 03 04 05 06 07 08 09; do
        for_blackwell -std=c++20 -O2 --use_fast_math --expt-extended-lambda -DNDEBUG -DKITTENS_BLACKWELL -Xcompiler=-fno-strict-aliasing \
            -I "$source/include" -o "$folder/kittens/$level" "$source/kernels/gemm/educational_b200/level_$level.cu" || true
        judge "level $level" '^Error count: 0$' "$folder/kittens/$level"
    done
    said 'ThunderKittens 0b55588, educational_b200'
}

# CUTLASS' tutorials for Blackwell, and two of its examples.
cutlass() {
    local source=$folder/cutlass/source name right=0 wrong=() found=()
    source_of cutlass NVIDIA/cutlass 7107b05
    local options=(-std=c++17 -O2 -I "$source/include" -I "$source/tools/util/include" -I "$source/examples/common")
    for name in 01_mma 02_mma_tma 03_mma_tma_multicast 04_mma_tma_2sm 05_mma_tma_epi; do
        for_blackwell "${options[@]}" -o "$folder/cutlass/$name" "$source/examples/cute/tutorial/blackwell/${name}_sm100.cu" || true
        judge "$name" '^Execution is successful' "$folder/cutlass/$name" 1024 1024 256
    done
    for name in 70_blackwell_gemm/70_blackwell_fp16_gemm 72_blackwell_narrow_precision_gemm/72a_blackwell_nvfp4_bf16_gemm; do
        for_blackwell "${options[@]}" -o "$folder/cutlass/${name#*/}" "$source/examples/$name.cu" || true
        judge "${name#*/}" 'Disposition: Passed' "$folder/cutlass/${name#*/}" --m=256 --n=1024 --k=256 --iterations=0
    done
    said 'CUTLASS 7107b05'
}

# The tests of CubeCL's CUDA runtime, but for one whose kernel reads shared memory that it does not have: the error would stay with the
# context of the others (cubecl-std, src/tests/reinterpret_slice.rs:122).
cubecl() {
    install cubecl 'cuda-toolkit[nvrtc,nvcc,cudart,crt,cccl]==13.0.*'
    sources cubecl cubecl-cuda 0.9.0
    (simulated cubecl test --quiet --lib -- --skip reinterpret_slice_f16::shared_memory::write || true)
}

for client in "${@:-numba triton pycuda cudarc cubecl blackwell kittens cutlass}"; do
    for name in $client; do "$name"; done
done
