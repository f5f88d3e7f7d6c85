#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make lint`: the rules of CONTRIBUTING.md that a machine can check.

Reads the files that git tracks (or those named on the command line) and prints
`file:line: what is wrong`.  The exit status is 1 when anything was found.  It
changes nothing; clang-format and clang-tidy are used where they are installed
and named as missing where they are not.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import apidoc
import functions
import guides
import headers
import layers
import options
import references
import versions
import words

SOURCE = {".c", ".h", ".cu"}
NEEDS_SPDX = SOURCE | {".py", ".sh", ".mk", ".proto", ".api", ".yaml", ".service"}
MAX_LINES = 900
MAX_COLUMNS = 88

BANNED = {
    "strcpy": "use gp_str or memcpy with a checked length",
    "strcat": "use gp_str",
    "sprintf": "use snprintf",
    "vsprintf": "use vsnprintf",
    "strtok": "use strtok_r or a parser",
    "atoi": "use gp_str's checked conversions",
    "atol": "use gp_str's checked conversions",
    "gets": "it cannot be used safely",
    "system": "use posix_spawn or fork and exec",
    "alloca": "the stack is not ours to size by input",
}
BANNED_RE = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED))
UP_INCLUDE_RE = re.compile(r'^\s*#\s*include\s*["<][^">]*\.\./')
MARK_RE = re.compile(r"\b(TODO|FIXME)\b")
TYPEDEF_STRUCT_RE = re.compile(r"^\s*typedef\s+struct\b")


def strip_comments_and_strings(text):
    """Blank out what is not code, keeping every newline where it was."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                         re.S)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def check_c(path, text, found):
    code = strip_comments_and_strings(text).split("\n")
    for number, (line, bare) in enumerate(zip(text.split("\n"), code), 1):
        if UP_INCLUDE_RE.search(line):
            found(path, number, 'include by plain name, never by "../"')
        if "\t" in line:
            found(path, number, "tab; indent with four spaces")
        # clang-format sees to C and knows what cannot be broken; it reads no .cu.
        if path.suffix == ".cu" and len(line) > MAX_COLUMNS:
            found(path, number, f"{len(line)} columns, {MAX_COLUMNS} is the limit")
        for match in BANNED_RE.finditer(bare):
            found(path, number, f"{match.group(1)}() is banned: {BANNED[match.group(1)]}")
        # The driver ABI is CUDA's, with CUDA's typedefs.
        if TYPEDEF_STRUCT_RE.search(bare) and "cuda_abi" not in path.name:
            found(path, number, "no typedef of structs")
    # A *_body.h is included several times on purpose.
    if path.suffix == ".h" and not path.name.endswith("_body.h") and not re.search(r"^#ifndef \w+_H\b|^#pragma once", text, re.M):
        found(path, 1, "header without an include guard")


def check_any(path, text, found):
    lines = text.split("\n")
    if needs_spdx(path) and not any("SPDX-License-Identifier: Apache-2.0" in line
                                    for line in lines[:3]):
        found(path, 1, "no SPDX-License-Identifier in the first three lines")
    if path.suffix in SOURCE | {".py"} and len(lines) - 1 > MAX_LINES:
        found(path, MAX_LINES, f"{len(lines) - 1} lines: two subjects in one file?")
    if not text.endswith("\n"):
        found(path, len(lines), "no newline at the end")
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            found(path, number, "space at the end of the line")
        if path.suffix in SOURCE | {".py", ".sh", ".mk"} and path.name != "lint.py" \
                and MARK_RE.search(line):
            found(path, number, "a mark of unfinished work")


def needs_spdx(path):
    return path.suffix in NEEDS_SPDX or path.name == "Makefile"


def check_format(files, found, missing):
    sources = [str(path) for path in files if path.suffix in {".c", ".h"}]
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not tool:
        missing.append("clang-format")
        return
    if not Path(".clang-format").exists() or not sources:
        return
    done = subprocess.run([tool, "--dry-run", *sources], capture_output=True, text=True)
    seen = set()
    for line in done.stderr.splitlines():
        match = re.match(r"(.+?):(\d+):\d+: (?:warning|error): code should be clang-formatted",
                         line)
        if match and match.group(1) not in seen:
            seen.add(match.group(1))
            found(Path(match.group(1)), int(match.group(2)),
                  "not as clang-format would write it (first place)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--no-format", action="store_true", help="leave clang-format out")
    parser.add_argument("files", nargs="*", type=Path)
    args = parser.parse_args()

    files = args.files or [Path(name) for name in subprocess.run(
        ["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
        if name]
    problems = []
    missing = []

    def found(path, line, words):
        problems.append(f"{path}:{line}: {words}")

    checked = []
    for path in files:
        if not path.is_file() or not (needs_spdx(path) or path.suffix == ".md"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        checked.append(path)
        if path.suffix != ".md":
            check_any(path, text, found)
        if path.suffix in SOURCE:
            check_c(path, text, found)
    if not args.files:  # who includes whom is a question about all of them
        layers.check(files, found)
        words.check(files, found)
        guides.check(files, found)
        functions.check(files, found)
        headers.check(files, found)
        references.check(files, found)
        options.check(files, found)
        apidoc.check(found)
        versions.check(found)
    if not args.no_format:
        check_format(checked, found, missing)

    for problem in problems:
        print(problem)
    for tool in missing:
        print(f"lint: {tool} is not installed; its part was left out")
    print(f"lint: {len(checked)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
