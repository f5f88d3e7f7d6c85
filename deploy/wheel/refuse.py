# SPDX-License-Identifier: Apache-2.0
"""The build backend of the source archive, which builds nothing.

pip takes a source archive where no wheel fits the machine.  So this one says why none
does; nothing in it can be built by pip, because the client is C.
"""

import sys

import machine

ARCHITECTURES = ("x86_64", "aarch64")


def build_wheel(*_args, **_options):
    words = machine.lacking(ARCHITECTURES)
    sys.exit(f"gpupool: {words}" if words else
             "gpupool: no wheel for this machine was found; make one from the project's "
             "sources with `make wheel`, and install that")


build_sdist = build_wheel
