"""Runs numba-cuda's own tests, each module in a process of its own, two at a time: `numba_tests.py CUDA-SIM [MODULE…]`.

A kernel that ends badly breaks its process' context, as on hardware, so tests that fail are tried once more, alone.
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
import unittest

PACKAGE = "numba.cuda.tests"
FOLDERS = ["nocuda", "cudasim", "cudadrv", "cudapy", "nrt", "doc_examples", "core"]
# Seconds that a module, and a test alone, may take.
MODULE_LIMIT = 900
TEST_LIMIT = 300
UNENDED = ("failed", "did not end")
# What `pytest.importorskip` raises. unittest knows nothing of it.
SKIPPED = "Skipped"


class Result(unittest.TextTestResult):
    """Writes how each test ended."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.how = {}

    def save(self):
        pathlib.Path(os.environ["CLIENT_RESULT"]).write_text(json.dumps(self.how))

    def write(self, test, how):
        if self.how.get(test.id(), UNENDED) == UNENDED:
            self.how[test.id()] = how
        self.save()

    def failed(self, test, error):
        how = "skipped" if error[0].__name__ == SKIPPED else "failed"
        self.write(test, (how, f"{error[0].__name__}: {error[1]}"))

    def startTest(self, test):
        super().startTest(test)
        self.write(test, UNENDED)

    def addSuccess(self, test):
        self.write(test, ("passed", ""))

    def addExpectedFailure(self, test, error):
        self.write(test, ("passed", ""))

    def addSkip(self, test, reason):
        self.write(test, ("skipped", reason))

    def addFailure(self, test, error):
        self.failed(test, error)

    def addError(self, test, error):
        self.failed(test, error)

    def addUnexpectedSuccess(self, test):
        self.write(test, ("failed", "an unexpected success"))

    def addSubTest(self, test, subtest, error):
        if error:
            self.failed(test, error)

    def startTestRun(self):
        self.how = {test.id(): UNENDED for test in self.tests}

    def stopTestRun(self):
        # Those of a class that was skipped as a whole.
        self.how = {test: how for test, how in self.how.items() if how != UNENDED}
        self.save()


def flat(tests):
    return [each for test in tests for each in flat(test)] if isinstance(tests, unittest.TestSuite) else [tests]


def child(name):
    try:
        tests = unittest.defaultTestLoader.loadTestsFromName(name)
    except BaseException as error:
        if type(error).__name__ != SKIPPED:
            raise
        pathlib.Path(os.environ["CLIENT_RESULT"]).write_text(json.dumps({name: ("skipped", str(error))}))
        return
    Result.tests = flat(tests)
    unittest.TextTestRunner(verbosity=0, resultclass=Result, warnings="ignore").run(tests)


def run(cuda_sim, name, limit):
    """How each test of that name ended."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder, "result")
        result.write_text("{}")
        command = [*cuda_sim, sys.executable, "-W", "ignore", __file__, "--child", name]
        environment = os.environ | {"CLIENT_RESULT": str(result)}
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
        return results if results or process.returncode == 0 else {name: ("failed", end)}


def run_module(cuda_sim, module):
    """How each test of a module ended, and the seconds that it took."""
    start = time.monotonic()
    results = run(cuda_sim, module, MODULE_LIMIT)
    for test, (how, _) in list(results.items()):
        if how == "failed" and test.startswith(f"{module}."):
            results |= run(cuda_sim, test, TEST_LIMIT)
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


if sys.argv[1] == "--child":
    child(sys.argv[2])
else:
    main(sys.argv[1].split(), sys.argv[2:])
