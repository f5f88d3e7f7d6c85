#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches NVIDIA's client libraries as Debian packages them, with a list of sources of its
own: nothing is installed, and the system's sources stay as they are.

    fetch.py FOLDER

FOLDER/RELEASE gets the files of libcuda1 and libnvidia-ml1 of each release of Debian.  They
are NVIDIA's, for this machine alone, and never part of a commit."""

import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import debian  # noqa: E402

RELEASES = "bookworm", "trixie"
PACKAGES = "libcuda1", "libnvidia-ml1"


def fail(words):
    print(f"test-vendor: {words}", file=sys.stderr)
    sys.exit(2)


def apt(release, folder):
    """apt-get with sources and lists of its own."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    mirror = debian.mirror() or fail("this system has no mirror of Debian")
    sources.write_text(f"deb [signed-by={debian.KEYS}] {mirror} {release} non-free\n")
    return ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={sources}",
            "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={folder}/lists",
            "-o", f"Dir::Cache={folder}/cache", "-o", "APT::Sandbox::User=root"]


def fetch(release, folder):
    work = folder.parent / f"{release}.work"
    shutil.rmtree(work, ignore_errors=True)
    command = apt(release, work)
    print(f"test-vendor: fetching {' and '.join(PACKAGES)} of {release}", flush=True)
    for words in (["update"], ["download", *PACKAGES]):
        done = subprocess.run([*command, *words], cwd=work, capture_output=True, text=True,
                              check=False)
        if done.returncode:
            fail(f"apt-get {words[0]} of {release} non-free: {done.stderr.strip()}")
    for package in work.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, work / "root"], check=True)
    (work / "root").rename(folder)
    shutil.rmtree(work)


def main():
    for name in ("apt-get", "dpkg-deb"):
        if not shutil.which(name):
            fail(f"{name} is needed: this takes NVIDIA's libraries from Debian's packages")
    root = pathlib.Path(sys.argv[1]).resolve()
    root.mkdir(parents=True, exist_ok=True)
    for release in RELEASES:
        if not (root / release).exists():
            fetch(release, root / release)


main()
