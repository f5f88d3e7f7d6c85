# SPDX-License-Identifier: Apache-2.0
"""Warp's own tests, as its wheel has them: those for a card, on the card.

They compare with numpy or with values of their own.  Warp compiles with the NVRTC inside its
library; it is asked for PTX, because a software card runs no machine code.  Each module of
tests is a check and has a process of its own (`--one MODULE`); what it compiled is kept beside
the packages, because a processor needs minutes for it.  Words on the command line name modules.
"""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import unittest

from client import check, main

LIMIT_S = 1500
# Why a test is left out, by a pattern of its name without "_cuda_0".
LEFT_OUT = {
    "test_array": {"test_array_from_int(32|64)_domain": "3.4 GB, more than the slice has"},
}
MODULES = ("test_array_reduce", "test_grad", "test_fem", "geometry.test_volume",
           "geometry.test_marching_cubes", "tile.test_tile", "tile.test_tile_load",
           "tile.test_tile_reduce", "tile.test_tile_shared_memory", "tile.test_tile_sort",
           "tile.test_tile_view", "test_array")


def warp():
    import warp as wp

    wp.config.cuda_output = "ptx"
    wp.config.quiet = True
    wp.config.kernel_cache_dir = str(pathlib.Path(sys.prefix) / "warp-cache")
    wp.init()
    return wp


def tests_of(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from tests_of(part)
        elif part.id().endswith("_cuda_0"):
            yield part


def why_left_out(module, test):
    name = test.id().rsplit(".", 1)[1].removesuffix("_cuda_0")
    return next((why for pattern, why in LEFT_OUT.get(module, {}).items()
                 if re.fullmatch(pattern, name)), None)


def run_one(module):
    """In a process of its own: a line for each test that failed, and the counts."""
    warp()
    loaded = importlib.import_module(f"warp.tests.{module}")
    found = list(tests_of(unittest.defaultTestLoader.loadTestsFromModule(loaded)))
    wanted = [test for test in found if not why_left_out(module, test)]
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(wanted))
    for test, words in result.failures + result.errors:
        print("failed", test.id().rsplit(".", 1)[1], words.strip().split("\n")[-1][:200])
    print(f"counts {module}: {result.testsRun} tests ran, {len(found) - len(wanted)} left out, "
          f"{len(result.skipped)} skipped themselves", flush=True)
    sys.exit(0 if result.testsRun and result.wasSuccessful() else 1)


def module_check(module):
    def one():
        done = subprocess.run([sys.executable, __file__, "--one", module], text=True,
                              stdout=subprocess.PIPE, timeout=LIMIT_S, check=False)
        lines = done.stdout.split("\n")
        print("\n".join(line for line in lines if line.startswith(("counts", "failed"))))
        failed = [line.split()[1] for line in lines if line.startswith("failed")]
        assert done.returncode == 0, f"exit status {done.returncode}, failed: {failed}"
    one.__name__ = module
    check(one)


if sys.argv[1:2] == ["--one"]:
    run_one(sys.argv[2])
else:
    for name in MODULES:
        module_check(name)
    main(f"Warp {warp().config.version}, {os.cpu_count()} processors")
