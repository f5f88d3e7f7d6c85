# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operations on a card against the processor's, on the examples that PyTorch's own
tests take (OpInfo), by Debian's build of it, whose kernels are there as PTX for 9.0.

The wheels of PyPI have machine code only.  What needs a kernel of cuBLAS, cuDNN and the like is
not applicable.
"""

import json
import shutil
from pathlib import Path

from debian_root import DebianRoot
from suite import Pool, Report, Result, Venv

INSIDE = Path(__file__).resolve().parent / "pytorch_ops_inside.py"
RELEASE = "trixie"
# The package that PyTorch's depends on for cuDNN fetches that from where it may not be; the
# library is PyPI's.
PACKAGES = """python3-expecttest python3-filelock python3-fsspec python3-hypothesis python3-jinja2
    python3-networkx python3-numpy python3-packaging python3-pkg-resources python3-psutil
    python3-requests python3-sympy python3-typing-extensions python3-yaml libblas3 libcpp-httplib0.18
    libcpuinfo0 libcublas12 libcublaslt12 libcudart12 libcufft11 libcurand10 libcusolver11
    libcusparse12 libdnnl3.6 libfmt10 libgloo-cuda-0 libgomp1 liblapack3 libnccl2 libnuma1
    libnvrtc12 libnvtoolsext1 libonnx1t64 libprotobuf32t64 libpthreadpool0 libsleef3
    libtensorpipe-cuda-0 libvulkan1 libxnnpack0.20241108 libz3-4""".split()
UNPACKED = ["python3-torch-cuda", "libtorch-cuda-2.6", "python3-setuptools"]
CUDNN = "nvidia-cudnn-cu12==9.5.1.17"
LIMIT_S = 4 * 3600


def cudnn(build, root):
    """cuDNN's libraries, where the root's linker is told to look."""
    folder = root.folder / "opt" / "cudnn"
    if not folder.exists():
        venv = Venv(build, "cudnn", [CUDNN])
        shutil.copytree(next(venv.folder.glob("lib/python3*/site-packages/nvidia/cudnn/lib")),
                        folder)
    return "/opt/cudnn"


def run(build, only):
    root = DebianRoot(build, RELEASE, PACKAGES, UNPACKED)
    shutil.copy(INSIDE, root.folder / "opt")
    report = Report(build, "pytorch_ops")
    log = build / "suites" / "pytorch_ops.log"
    words = root.command("sh", "-c", f'LD_LIBRARY_PATH="$LD_LIBRARY_PATH:{cudnn(build, root)}" '
                         'exec python3 -W ignore "$@"', "sh", f"/opt/{INSIDE.name}", only)
    with Pool(build, "softgpu", {"SOFTGPU_CC": "9.0", "SOFTGPU_MEMORY": "8GiB"}) as pool:
        lines, status = pool.run(words, {}, log, core=100, memory=6 << 30, limit_s=LIMIT_S)
    for line in lines:
        if line.startswith("{"):
            report.add(Result(**json.loads(line)))
    if status != 0 or not report.counts:
        report.add(Result("all of it", "FAIL", f"exit status {status}, see {log}"))
    return report.close()
