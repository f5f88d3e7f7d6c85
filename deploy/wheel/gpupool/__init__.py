# SPDX-License-Identifier: Apache-2.0
"""gpupool: a remote slice of a GPU for programs nobody rebuilt.

    gpupool run --core 30 --memory 4GiB -- python train.py

`python -m gpupool` is the same command.  The programs and libraries in this package are
not Python's; docs/packages.md of the project says what they are.
"""

__version__ = "@VERSION@"
