# SPDX-License-Identifier: Apache-2.0
"""GCC's OpenMP offloading, its runtime and its device libraries, on a remote card."""

from pathlib import Path

PLUGIN = "/usr/lib/x86_64-linux-gnu/libgomp-plugin-nvptx.so.1"
OFFLOADER = "/usr/lib/gcc/x86_64-linux-gnu/12/accel/nvptx-none/mkoffload"
# A toolkit's assembler in the PATH would refuse the sm_35 that GCC asks it to verify.
PLAIN = {"PATH": "/usr/bin:/bin"}


def test_target_regions_run_unmodified(case):
    if case.sanitizer:
        case.skip(f"a program built without -fsanitize={case.sanitizer} cannot load the stub")
    compiler = case.need_file("/usr/bin/gcc-12", "gcc-12 is not installed")
    case.need_file(PLUGIN, "libgomp-plugin-nvptx1 is not installed")
    case.need_file(OFFLOADER, "gcc-12-offload-nvptx is not installed")
    program = Path(case.folder) / "openmp"
    case.run([compiler, "-fopenmp", "-foffload=nvptx-none", "-foffload-options=-lm", "-O2",
              Path(case.data) / "openmp.c", "-o", program, "-lm"], env=PLAIN)
    pool = case.pool(servers=1, cards=1)
    result = pool.run(program, env={"OMP_TARGET_OFFLOAD": "MANDATORY"})
    case.contains(result.out, "runs on the device: ok", "where the region ran")
    case.equal(result.out.count(": ok\n"), 8, "good results")
