# SPDX-License-Identifier: Apache-2.0
"""What the suites share: outcomes by kind, packages, many short programs on one pool."""

import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))
sys.path.insert(0, str(HERE.parent))

import debian  # noqa: E402
from pool import Pool, run_bounded  # noqa: E402,F401


GCC_PACKAGE = "gcc-12-source"
GCC_FILES = ["*/gcc/testsuite/gcc.c-torture/execute/*", "*/libgomp/testsuite/*",
             "*/gcc/testsuite/c-c++-common/goacc/*", "*/libgomp/*.h",
             "*/include/gomp-constants.h"]
# A toolkit's assembler in the PATH would refuse what GCC asks it to verify.
PLAIN = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


# Small, so that a slice whose program has just ended does not stand in the way of the
# next; the card is idle most of the time, so a slice may use more than its share.
SLICE = ["--core", "10", "--policy", "burst-share", "--memory", "512MiB"]


class Missing(Exception):
    """The suite cannot be had on this machine; the words say what is missing."""


class Result:
    """One test: PASS, FAIL or NA, and why it is not PASS."""

    def __init__(self, name, outcome, why=""):
        self.name, self.outcome, self.why = name, outcome, why


class Report:
    """Results of one suite: a line for each in a file, counts by kind at the end."""

    def __init__(self, build, suite):
        folder = build / "suites"
        folder.mkdir(parents=True, exist_ok=True)
        self.suite = suite
        self.path = folder / f"{suite}.txt"
        self.file = open(self.path, "w", encoding="utf-8")
        self.counts = collections.Counter()
        self.kinds = collections.Counter()

    def add(self, result):
        words = f": {result.why}" if result.why else ""
        self.file.write(f"{result.outcome} {result.name}{words}\n")
        self.file.flush()
        self.counts[result.outcome] += 1
        if result.outcome == "NA":
            self.kinds[result.why] += 1
        if result.outcome == "FAIL":
            print(f"FAIL {self.suite} {result.name}{words}", flush=True)

    def close(self):
        self.file.close()
        print(f"--- {self.suite}: {self.counts['PASS']} passed, {self.counts['FAIL']} failed, "
              f"{self.counts['NA']} not applicable ({self.path})")
        for why, n in self.kinds.most_common():
            print(f"      {n:5} {why}")
        return self.counts["FAIL"]


def need_tool(name, package):
    path = shutil.which(name)
    if not path:
        raise Missing(f"{name} is not installed (package {package})")
    return path


def mirror():
    """Where this system takes Debian's packages from."""
    found = debian.mirror()
    if not found:
        raise Missing("no mirror of Debian is configured")
    return found


def gcc_source(build):
    """The tests of the compiler and of its OpenMP library, from Debian's source."""
    folder = build / "suites" / GCC_PACKAGE
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    quiet(["apt-get", "download", GCC_PACKAGE], folder, "the package cannot be downloaded")
    deb = next(folder.glob("*.deb"))
    quiet(["dpkg-deb", "-x", deb, folder / "deb"], folder, "the package cannot be unpacked")
    tar = next((folder / "deb").rglob("gcc-*.tar.*"))
    quiet(["tar", "-xf", tar, "--strip-components=1", "--wildcards", *GCC_FILES], folder,
          "the archive cannot be unpacked")
    shutil.rmtree(folder / "deb")
    deb.unlink()
    (folder / "done").touch()
    return folder


def options(text):
    """The flags that a test of GCC's asks for on every target."""
    words = []
    for flags, targets in re.findall(
            r"dg-(?:additional-)?options\s+(?:\{\s*)?\"([^\"]*)\"\s*(\{[^}]*\})?", text):
        if not targets:
            words += [flag for flag in flags.split() if not flag.startswith("-m")]
    return words


def quiet(command, cwd, words, env=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True, env=env,
                          errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        last = (done.stdout.strip().split("\n") or [""])[-1][:200]
        raise Missing(f"{words} ({last})")
    return done.stdout


def attempt(command, cwd, env, limit_s):
    """Exit status (None: it ran out of time) and what the command said."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, text=True,
                              errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


class Venv:
    """A virtual environment BUILD/suites/venv-NAME with packages from PyPI, kept."""

    def __init__(self, build, name, packages):
        self.folder = build / "suites" / f"venv-{name}"
        self.python = self.folder / "bin" / "python"
        stamp = self.folder / "installed"
        if stamp.exists() and stamp.read_text() == "\n".join(packages):
            return
        quiet([sys.executable, "-m", "venv", self.folder], build, "no virtual environment")
        quiet([self.python, "-m", "pip", "install", "--quiet", "--retries", "1",
               "--disable-pip-version-check", *packages], build,
              "packages cannot be installed")
        stamp.write_text("\n".join(packages))


def python_source(build, venv, name, version):
    """The source archive of a package on PyPI, unpacked; its folder."""
    folder = build / "suites" / f"{name}-{version}"
    if not (folder / "test").exists():
        quiet([venv.python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name,
               f"{name}=={version}"], build / "suites", "the source archive cannot be downloaded")
        quiet(["tar", "-xf", f"{name}-{version}.tar.gz"], build / "suites",
              "the source archive cannot be unpacked")
    return folder


def run_all(tests, one, report):
    """one(test) for each, as many at a time as there are cores; reports in order.

    one() gives a result or a list of them.
    """
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as executor:
        for results in executor.map(one, tests):
            for result in results if isinstance(results, list) else [results]:
                report.add(result)
