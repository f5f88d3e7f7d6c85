#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make wheel`: packs the client's portable tree as a wheel for pip.

    build.py --tree FOLDER --out FOLDER --version V --arch x86_64 --glibc 2.28

FOLDER is what the client's tarball holds.  Beside the wheel a source archive is written:
pip takes it where no wheel fits, and it says why (refuse.py).  Standard library only; the
same input gives the same bytes.
"""

import argparse
import base64
import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIME = (1980, 1, 1, 0, 0, 0)
# A link cannot be in a wheel; under this name the program is `gpupool smi`.
NVIDIA_SMI = '#!/bin/sh\nexec "${0%/lib/path/*}/bin/gpupool" smi "$@"\n'
PTXAS = '#!/bin/sh\nexec "${0%/lib/ptx/*}/bin/gpupool" ptxas "$@"\n'
METADATA = """Metadata-Version: 2.1
Name: gpupool
Version: {version}
Summary: A remote slice of a GPU for programs nobody rebuilt: the client
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.7
Classifier: Operating System :: POSIX :: Linux
Classifier: License :: OSI Approved :: Apache Software License
Description-Content-Type: text/markdown

{description}"""
WHEEL = """Wheel-Version: 1.0
Generator: gpupool
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = "[console_scripts]\ngpupool = gpupool.__main__:main\n"
PYPROJECT = """[build-system]
requires = []
build-backend = "refuse"
backend-path = ["."]

[project]
name = "gpupool"
version = "{version}"
"""


def files(tree, words):
    """(name in the wheel, bytes, executable) of the package."""
    for path in sorted((HERE / "gpupool").glob("*.py")):
        yield f"gpupool/{path.name}", filled(path, words), False
    yield "gpupool/bin/gpupool", (tree / "libexec" / "gpupool").read_bytes(), True
    for path in sorted((tree / "lib" / "gpupool").glob("*.so.1")):
        yield f"gpupool/lib/{path.name}", path.read_bytes(), True
    yield "gpupool/lib/path/nvidia-smi", NVIDIA_SMI.encode(), True
    yield "gpupool/lib/ptx/bin/ptxas", PTXAS.encode(), True


def filled(path, words):
    text = path.read_text("utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text.encode()


def record(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write_wheel(args, words):
    tag = f"py3-none-manylinux_{args.glibc.replace('.', '_')}_{args.arch}"
    info = f"gpupool-{args.version}.dist-info"
    description = (HERE / "README.md").read_text("utf-8")
    members = list(files(args.tree, words))
    members += [
        (f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes(), False),
        (f"{info}/METADATA", METADATA.format(version=args.version,
                                             description=description).encode(), False),
        (f"{info}/WHEEL", WHEEL.format(tag=tag).encode(), False),
        (f"{info}/entry_points.txt", ENTRY_POINTS.encode(), False),
    ]
    lines = "".join(record(name, data) for name, data, _ in members)
    members.append((f"{info}/RECORD", (lines + f"{info}/RECORD,,\n").encode(), False))
    path = args.out / f"gpupool-{args.version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, executable in members:
            member = zipfile.ZipInfo(name, TIME)
            member.external_attr = (0o100755 if executable else 0o100644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    return path


def write_source(args, words):
    folder = f"gpupool-{args.version}"
    members = {
        "PKG-INFO": METADATA.format(version=args.version, description="").encode(),
        "pyproject.toml": PYPROJECT.format(version=args.version).encode(),
        "refuse.py": (HERE / "refuse.py").read_bytes(),
        "machine.py": filled(HERE / "gpupool" / "machine.py", words),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    path = args.out / f"{folder}.tar.gz"
    with gzip.GzipFile(path, "wb", mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--glibc", required=True)
    args = parser.parse_args()
    words = {"ARCH": args.arch, "VERSION": args.version, "GLIBC": args.glibc}
    args.out.mkdir(parents=True, exist_ok=True)
    print(write_wheel(args, words))
    print(write_source(args, words))


if __name__ == "__main__":
    main()
