# SPDX-License-Identifier: Apache-2.0
"""The Python with PyTorch that `make test-gpu` runs its larger half with.

$GPUPOOL_GPU_PYTHON names one; otherwise it is made, once, in BUILD/gpu-venv from the list
of wheels beside this file, out of a folder of wheels where there is no network.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
DISK_GB = 10  # 3 GB of wheels, 7 GB of what is in them


def has_torch(python):
    return _step([python, "-c", "import torch"]) is None


def _step(command):
    """None, or the last words of a command that failed."""
    try:
        done = subprocess.run([str(word) for word in command], text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        return str(error)
    lines = [line for line in done.stdout.split("\n") if line.strip()]
    return None if done.returncode == 0 else (lines or ["no words"])[-1][:200]


def _make(folder, requirements, wheels):
    """None, or why the environment cannot be made."""
    free = shutil.disk_usage(folder.parent).free
    if requirements == REQUIREMENTS and free < DISK_GB << 30:
        return f"{folder.parent} has {free >> 30} GB of room, PyTorch needs {DISK_GB}"
    print(f"PyTorch is installed into {folder} "
          f"({f'from {wheels}' if wheels else 'some 3 GB are fetched'})", flush=True)
    words = _step([sys.executable, "-m", "venv", folder])
    if words:
        return f"no virtual environment: {words}"
    source = ["--no-index", "--find-links", wheels] if wheels else ["--retries", "1"]
    words = _step([folder / "bin" / "python", "-m", "pip", "install", "--quiet",
                   "--disable-pip-version-check", *source, "-r", requirements])
    return (f"PyTorch's wheels cannot be had: {words} (without a network: make test-gpu "
            "WHEELS=FOLDER, see tests/gpu/requirements.txt)" if words else None)


def python_with_torch(build, wheels="", requirements=REQUIREMENTS):
    """A Python that has PyTorch, None; or None and why there is none."""
    named = os.environ.get("GPUPOOL_GPU_PYTHON")
    if named:
        return (named, None) if has_torch(named) else (None, f"{named} has no PyTorch")
    if has_torch(sys.executable):
        return sys.executable, None
    folder, wanted = build / "gpu-venv", Path(requirements).read_text("utf-8")
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        lacking = _make(folder, Path(requirements), wheels)
        if lacking:
            return None, lacking
        stamp.write_text(wanted, "utf-8")
    return (str(python), None) if has_torch(python) else (None, f"{python} has no PyTorch")
