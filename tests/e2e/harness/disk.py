# SPDX-License-Identifier: Apache-2.0
"""A small disk for one test, which can be full.

The test itself, and so what it starts, moves into a mount namespace of its own.  Needs
root.  The disk is a tmpfs: it has whole pages, and a write that needs one more than
there are is cut short or fails with ENOSPC.
"""

import ctypes
import errno
import os
import subprocess

CLONE_NEWNS = 0x00020000


class Disk:
    """@kib KiB at @folder, which is made."""

    def __init__(self, case, folder, kib):
        if os.geteuid() != 0:
            case.skip("a disk of its own needs root")
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
            case.skip(f"no mount namespaces: {os.strerror(ctypes.get_errno())}")
        self.folder = folder
        self.filler = folder / "filler"
        folder.mkdir(mode=0o700)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0700", "small", folder],
                       check=True)
        case.at_end(self._end)

    def _end(self):
        subprocess.run(["umount", "-l", self.folder], check=True)

    def fill(self):
        """Take all that is free."""
        with open(self.filler, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def make_room(self):
        self.filler.unlink()
