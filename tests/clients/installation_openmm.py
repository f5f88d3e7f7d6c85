# SPDX-License-Identifier: Apache-2.0
"""OpenMM's own installation test: forces of its protein in water on every platform.

It computes them by the CUDA platform with PME on the card, where cuFFT does the transforms.
OpenCL is kept away: it would be the processor's, and is none of ours.
"""

import os
import re
import subprocess
import sys

import openmm

from client import check, main


@check
def every_platform_agrees():
    done = subprocess.run([sys.executable, "-m", "openmm.testInstallation"], text=True,
                          env={**os.environ, "OCL_ICD_VENDORS": "/nowhere"}, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-300:]
    assert "CUDA - Successfully computed forces" in done.stdout, done.stdout
    assert "All differences are within tolerance." in done.stdout, done.stdout
    apart = dict(re.findall(r"(\S+) vs\. CUDA: (\S+)", done.stdout))
    assert set(apart) == {"Reference", "CPU"}, apart
    assert all(float(value) < 1e-4 for value in apart.values()), apart


main(f"OpenMM {openmm.__version__}")
