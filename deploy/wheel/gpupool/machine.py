# SPDX-License-Identifier: Apache-2.0
"""Whether this machine can run the client, in words when it cannot."""

import os
import platform
import sys

# Both are set when the wheel is made.
ARCHITECTURE = "@ARCH@"
GLIBC = "@GLIBC@"


def libc():
    """The C library's name and version: ("glibc", (2, 36)), or ("another", ())."""
    try:
        name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
        return name, tuple(int(part) for part in version.split("."))
    except (AttributeError, OSError, ValueError):
        return "another", ()


def lacking(architectures=(ARCHITECTURE,)):
    """What this machine lacks; None if nothing."""
    if sys.platform != "linux":
        return f"gpupool's client runs on Linux, and this is {platform.system()}"
    if platform.machine() not in architectures:
        return (f"this is gpupool's client for {' and '.join(architectures)}, and the "
                f"machine is {platform.machine()}")
    name, version = libc()
    if name != "glibc":
        return ("this Python runs with another C library than GNU's (musl?): gpupool and "
                f"CUDA programs need glibc {GLIBC} or newer")
    if version < tuple(int(part) for part in GLIBC.split(".")):
        return (f"this system has glibc {'.'.join(str(part) for part in version)}, and "
                f"gpupool needs {GLIBC} or newer")
    return None
