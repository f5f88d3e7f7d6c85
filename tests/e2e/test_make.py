# SPDX-License-Identifier: Apache-2.0
"""Every target of the Makefile installs what it needs, or says in one line what to install.

The package manager is a stand-in that writes down what it is asked for: nothing is installed.
"""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# They need what a build needs, which is `make deps`, or nothing.
WITHOUT = {"deps", "clean", "install", "dist", "help", "coverage", "format", "gen-diff",
           "list-manual", "show-gen", "show-packages", "wire-lock", "numerics", "ptx-coverage",
           "unit-tests"}

# As /bin/sh scripts: what stands in for the system's own.
NOTHING_INSTALLED = "exit 1"
WRITES_DOWN = 'echo "$@" >>"$ASKED"'
NOT_ROOT = "echo 1000"


def tools(case, **scripts):
    folder = case.folder / "tools"
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    for name in ("grep", "env", "sh", "bash", "gcc", "clang-14", "uname", "nproc", "make", "python3"):
        found = next((p for p in ("/usr/bin/", "/bin/") if os.path.exists(p + name)), None)
        if found and not (folder / name).exists():
            (folder / name).symlink_to(found + name)
    return folder


def make(case, *words, path=None, **options):
    # Not a part of the make that runs the tests.
    env = {"MAKEFLAGS": "", "MAKELEVEL": "", "MFLAGS": "", "ASKED": str(case.folder / "asked")}
    if path:
        env["PATH"] = str(path)
    return case.run([case.need_tool("make"), "-s", "-C", ROOT, f"O={case.folder}/build", *words],
                    env=env, **options)


def packages(case):
    lines = make(case, "show-packages").out.splitlines()
    return {name: words.split() for name, _, words in (line.partition(":") for line in lines)}


def test_every_target_of_the_help_is_known_with_its_packages(case):
    text = make(case, "help").out
    names = set()
    for words in re.findall(r"(?m)^  make ([a-z0-9-]+(?:, [a-z0-9-]+)*)", text):
        names |= set(words.split(", "))
    known = packages(case)
    case.check({"test", "bench", "lint", "test-rdma"} <= names, f"targets of the help: {names}")
    case.equal(sorted(names - WITHOUT - set(known)), [], "targets whose packages nobody lists")
    case.equal(sorted(set(known) - names), [], "targets that the help does not name")


def test_every_target_asks_for_all_that_is_missing(case):
    path = tools(case, dpkg_query=NOTHING_INSTALLED, apt_get=WRITES_DOWN, id="echo 0")
    for target, wanted in packages(case).items():
        asked = case.folder / "asked"
        asked.write_text("")
        make(case, "deps", f"FOR={target}", path=path)
        lines = asked.read_text().splitlines()
        case.equal(len(lines), 1, f"{target}: {lines}")
        case.equal(lines[0].split(), ["install", "-y", "--no-install-recommends", *wanted], target)


def test_targets_begin_with_their_packages(case):
    """And end there when they cannot be had: nothing is built without."""
    path = tools(case, dpkg_query=NOTHING_INSTALLED, apt_get="exit 1", id=NOT_ROOT)
    for target, wanted in packages(case).items():
        result = make(case, target, path=path, status=2)
        line, = [line for line in result.err.splitlines() if line.startswith("error:")]
        case.equal(line, "error: not root and no sudo; install them: apt-get install "
                   + " ".join(wanted), target)
        case.check(not (case.folder / "build").exists(), f"{target} has built something")


def test_attacks_of_the_review_are_all_run_by_test_attacks(case):
    """Each test that docs/security.md names for one of its holes is among those that
    `make test-attacks` runs."""
    rows = re.findall(r"(?m)^\| H\d+ .*\| ([^|]*) \|$", (ROOT / "docs/security.md").read_text())
    case.equal(len(rows), 10, "holes of the table")
    named = {word for row in rows for word in re.findall(r"`([a-z_.]+)`", row)} - {"fuzz_worker"}
    patterns = make(case, "--eval=show: ; $(info $(ATTACKS))", "show").out.strip()
    jobs = case.run([case.need_tool("python3"), ROOT / "tests/run.py", "--build", case.build,
                     "--e2e", "--list", "--only", patterns]).out.split()
    jobs += [word for word in patterns.split() if word.startswith("unit.")]  # built by it
    for name in sorted(named):
        case.check(any(name in job for job in jobs), f"{name} is not among {jobs}")
