"""Runs numba-cuda's own tests, each module in a process of its own: `numba_tests.py CUDA-SIM [MODULE…]`.

A kernel that ends badly breaks its process' context, as on hardware, so tests that fail are tried once more, alone.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = "numba.cuda.tests"
FOLDERS = ["nocuda", "cudasim", "cudadrv", "cudapy", "nrt", "doc_examples", "core"]


class Result(unittest.TextTestResult):
    """Writes how each test ended."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.how = {}

    def write(self, test, how):
        self.how.setdefault(test.id(), how)
        pathlib.Path(os.environ["CLIENT_RESULT"]).write_text(json.dumps(self.how))

    def failed(self, test, error):
        # `pytest.importorskip`, which unittest knows nothing of.
        self.write(test, ("skipped" if error[0].__name__ == "Skipped" else "failed", f"{error[0].__name__}: {error[1]}"))

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


def child(name):
    tests = unittest.defaultTestLoader.loadTestsFromName(name)
    unittest.TextTestRunner(verbosity=0, resultclass=Result, warnings="ignore").run(tests)


def run(cuda_sim, name):
    """How each test of that name ended."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder, "result")
        result.write_text("{}")
        command = [*cuda_sim, sys.executable, "-W", "ignore", __file__, "--child", name]
        try:
            done = subprocess.run(
                command, timeout=900, env=os.environ | {"CLIENT_RESULT": str(result)}, cwd=folder, capture_output=True, text=True
            )
            end = f"{done.stdout}{done.stderr}".strip().splitlines()[-3:]
        except subprocess.TimeoutExpired:
            end = ["more than 15 minutes"]
        return json.loads(result.read_text()) or {name: ("failed", f"no test ended: {end}")}


def main(cuda_sim, modules):
    import numba_cuda

    root = pathlib.Path(numba_cuda.__file__).parent.joinpath(*PACKAGE.split("."))
    modules = modules or [f"{PACKAGE}.{folder}.{file.stem}" for folder in FOLDERS for file in sorted(root.glob(f"{folder}/test_*.py"))]
    counts = collections.Counter()
    for module in modules:
        results = run(cuda_sim, module)
        for test, (how, reason) in results.items():
            if how == "failed" and test != module:
                how, reason = run(cuda_sim, test).get(test, (how, reason))
            counts[how] += 1
            if how == "failed":
                print(f"  {test}: {reason[:300]!r}", flush=True)
    print(f"numba-cuda {numba_cuda.__version__}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")


if sys.argv[1] == "--child":
    child(sys.argv[2])
else:
    main(sys.argv[1].split(), sys.argv[2:])
