# SPDX-License-Identifier: Apache-2.0
"""`gpupool` and `python -m gpupool`: become the program that the wheel brings."""

import os
import sys
from pathlib import Path

from gpupool import machine

PROGRAM = Path(__file__).resolve().parent / "bin" / "gpupool"


def main():
    words = machine.lacking()
    if words:
        sys.exit(f"gpupool: {words}")
    try:
        os.execv(PROGRAM, ["gpupool", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"gpupool: {PROGRAM}: {error.strerror}; install the wheel again: "
                 "pip install --force-reinstall gpupool")


if __name__ == "__main__":
    main()
