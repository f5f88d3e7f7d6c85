# SPDX-License-Identifier: Apache-2.0
"""Keeps nvJitLink, which makes machine code, away from every Python of the suites, so
that programs link through the driver; a toolkit on the machine may have it."""

try:
    from cuda import pathfinder
except ImportError:
    pathfinder = None


def _hide(find):
    def find_others(name):
        if name == "nvJitLink":
            raise pathfinder.DynamicLibNotFoundError("kept away from this program")
        return find(name)
    return find_others


if pathfinder is not None:
    pathfinder.load_nvidia_dynamic_lib = _hide(pathfinder.load_nvidia_dynamic_lib)
