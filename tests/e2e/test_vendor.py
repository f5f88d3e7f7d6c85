# SPDX-License-Identifier: Apache-2.0
"""The client libraries beside NVIDIA's own of the same age, in what those say without a card:
exported names, cuGetProcAddress, errors.  `make test-vendor` fetches them."""

import json
import os
import pathlib
import re
import sys

ANSWERS = pathlib.Path(__file__).parents[1] / "vendor" / "answers.py"
RELEASES = "bookworm", "trixie"
# In no header and no list of cuGetProcAddress, or for EGL and for a debugger beside them.
PRIVATE = re.compile("cuMemGetAttribute(_v2)?|cuEGLApiInit|cudbg.*|nvmlInternalGetExportTable")


def library(case, release, name):
    folder = os.environ.get("E2E_VENDOR")
    if not folder:
        case.skip("NVIDIA's libraries are needed: `make test-vendor` fetches them")
    return next(pathlib.Path(folder).resolve().glob(f"{release}/usr/lib/*/nvidia/current/{name}"))


def exports(case, path):
    out = case.run([case.need_tool("nm"), "--dynamic", "--defined-only", path]).out
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


def asked(case, pool, *words):
    """What a library answers; ours on a slice of @pool."""
    command = [sys.executable, ANSWERS, *words]
    return json.loads((pool.run if pool else case.run)(*(command if pool else [command])).out)


def names_file(case, names):
    """Exported names, and the same without version and kind of stream."""
    stems = {re.sub(r"(_v\d+)?(_pt[ds][sz])?$", "", name) for name in names}
    path = case.folder / "names"
    path.write_text("\n".join(sorted(names | stems)))
    return path


def same_as(case, release):
    theirs = library(case, release, "libcuda.so.1")
    ours = case.build / "lib" / "libcuda.so.1"
    there = exports(case, theirs)
    case.check(len(there) > 500, f"names that {theirs} exports: {len(there)}")
    lacks = {name for name in there - exports(case, ours) if not PRIVATE.fullmatch(name)}
    case.equal(sorted(lacks), [], f"functions of {theirs.name} of {release} that ours lacks")
    names = names_file(case, {name for name in there if re.match("cu[A-Z]", name)})
    expected = asked(case, None, "cuda", theirs, names)
    version = expected["version"]
    pool = case.pool(env={"SOFTGPU_CUDA_VERSION": str(version)})
    got = asked(case, pool, "cuda", ours, names, "init")
    case.equal(got["version"], version, "version of the driver")
    differences = {name: (rows, got["lookups"][name])
                   for name, rows in expected["lookups"].items() if got["lookups"][name] != rows}
    case.equal(differences, {}, f"what cuGetProcAddress of {release} says, and ours")
    case.equal(got["mistakes"], expected["mistakes"], "calls that are wrong")
    known = {code: row for code, row in expected["errors"].items() if row[0] == 0}
    case.check(len(known) > 80, f"errors with a name: {len(known)}")
    case.equal({code: got["errors"][code] for code in known}, known, "names of errors")


def test_client_library_is_as_nvidias_of_debian_12(case):
    same_as(case, RELEASES[0])


def test_client_library_is_as_nvidias_of_debian_13(case):
    same_as(case, RELEASES[1])


def test_management_library_is_as_nvidias(case):
    ours = case.build / "lib" / "libnvidia-ml.so.1"
    for release in RELEASES:
        theirs = library(case, release, "libnvidia-ml.so.1")
        lacks = exports(case, theirs) - exports(case, ours)
        case.equal(sorted(name for name in lacks if not PRIVATE.fullmatch(name)), [],
                   f"functions of {release} that ours lacks")
        expected, got = asked(case, None, "nvml", theirs), asked(case, None, "nvml", ours)
        case.equal(got["before"], expected["before"], f"before nvmlInit, {release}")
        case.check(len(expected["words"]) > 20, f"errors with words: {expected['words']}")
        case.equal(sorted(set(expected["words"]) - set(got["words"])), [],
                   f"errors of {release} without words in ours")
