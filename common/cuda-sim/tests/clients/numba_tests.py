"""Runs numba-cuda's own tests, each module in a process of its own, two at a time: `numba_tests.py CUDA-SIM [MODULE…]`.

A kernel that ends badly breaks its process' context, as on hardware, so tests that fail are tried once more, alone. pytest loads this
file in those processes too, for the functions at its end.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pytest

PACKAGE = "numba.cuda.tests"
FOLDERS = ["nocuda", "cudasim", "cudadrv", "cudapy", "nrt", "doc_examples", "core"]
# Seconds that a module, and a test alone, may take.
MODULE_LIMIT = 900
TEST_LIMIT = 300
UNENDED = ("failed", "did not end")
NO_TESTS = 5


def run(cuda_sim, module, test="", limit=MODULE_LIMIT):
    """How each test of a module ended, or one of them."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder, "result")
        result.write_text("{}")
        options = ["-q", "-p", "numba_tests", "-p", "no:cacheprovider", "-o", "consider_namespace_packages=true"]
        # It links by the driver, and warns of that; a test counts warnings.
        options += ["-W", "ignore:cuda.bindings.nvjitlink:RuntimeWarning"]
        command = [*cuda_sim, sys.executable, "-m", "pytest", *options, "--pyargs", module + test]
        environment = os.environ | {"CLIENT_RESULT": str(result), "PYTHONPATH": str(pathlib.Path(__file__).parent)}
        with open(pathlib.Path(folder, "output"), "w+") as output:
            process = subprocess.Popen(
                command, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                process.wait(timeout=limit)
                end = f"ended early, {process.returncode}"
            except subprocess.TimeoutExpired:
                end = f"more than {limit} s"
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            end = f"{end}: {output.read().strip().splitlines()[-3:]}"
        results = {test: tuple(how) for test, how in json.loads(result.read_text()).items()}
        results = {test: ("failed", end) if how == UNENDED else how for test, how in results.items()}
        return results if results or process.returncode == NO_TESTS else {"": ("failed", end)}


def run_module(cuda_sim, module):
    """How each test of a module ended, and the seconds that it took."""
    start = time.monotonic()
    results = run(cuda_sim, module)
    for test in [test for test, (how, _) in results.items() if how == "failed" and test]:
        results |= run(cuda_sim, module, test, TEST_LIMIT)
    return results, time.monotonic() - start


def line(results):
    counts = collections.Counter(how for how, _ in results)
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def main(cuda_sim, modules):
    import numba_cuda

    root = pathlib.Path(numba_cuda.__file__).parent.joinpath(*PACKAGE.split("."))
    modules = modules or [f"{PACKAGE}.{folder}.{file.stem}" for folder in FOLDERS for file in sorted(root.glob(f"{folder}/test_*.py"))]
    everything = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for module, (results, seconds) in zip(modules, pool.map(lambda module: run_module(cuda_sim, module), modules)):
            everything += results.values()
            print(f"  {module}: {line(results.values())} in {seconds:.0f} s", flush=True)
            for test, (how, reason) in results.items():
                if how == "failed":
                    print(f"    {test}: {reason[:300]!r}", flush=True)
    print(f"numba-cuda {numba_cuda.__version__}: {line(everything)}")


how_ended = {}


def save():
    pathlib.Path(os.environ["CLIENT_RESULT"]).write_text(json.dumps(how_ended))


def name(nodeid):
    return nodeid[nodeid.find("::") :] if "::" in nodeid else ""


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """A fixture of numba-cuda's sources that the installed tests lack."""
    request.cls._dump_failed_filechecks = False


def pytest_collection_finish(session):
    how_ended.update({name(item.nodeid): UNENDED for item in session.items})
    save()


def pytest_collectreport(report):
    if report.skipped:
        how_ended[""] = ("skipped", str(report.longrepr))
        save()


def pytest_runtest_logreport(report):
    how = "passed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
    ended = report.when == "call" or how != "passed"
    if ended and how_ended.get(name(report.nodeid), UNENDED) in (UNENDED, ("passed", "")):
        errors = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
        how_ended[name(report.nodeid)] = (how, " ".join(errors))
        save()


if __name__ == "__main__":
    main(sys.argv[1].split(), sys.argv[2:])
