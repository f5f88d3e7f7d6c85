# SPDX-License-Identifier: Apache-2.0
"""Functions that comments of C files and documents name exist.

A `some_name()` in a comment of a C file, or anywhere in a Markdown file, must be a word
of some source's code: a definition, a call, or a pattern of the generator.  Names of one
word and of capitals (`main()`, `cuMemFree()`) may be anybody's.
"""

import re
from pathlib import Path

NAME_RE = re.compile(r"(?<![\w.])([a-z][a-z0-9]*_\w*[a-z0-9])\(\)")
WORD_RE = re.compile(r"\b[a-z][a-z0-9]*_\w+")
COMMENT_RE = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(/\*.*?\*/|//[^\n]*)', re.S)
C = {".c", ".h", ".cu", ".def"}
CODE = C | {".api", ".py", ".proto"}
HISTORY = {Path("CHANGELOG.md")}
# What libraries, the kernel and programs of users call theirs.
FOREIGN = set()


def named_in(text, pieces):
    """(line, name) of each function that is named in these pieces of @text."""
    for start, end in pieces:
        for match in NAME_RE.finditer(text, start, end):
            yield text.count("\n", 0, match.start()) + 1, match.group(1)


def check(files, found):
    """Calls found(path, line, words) for each function that is named and does not exist."""
    known, named = set(FOREIGN), []
    for path in files:
        if path.suffix not in CODE | {".md"} or path in HISTORY or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".md":
            pieces = [(0, len(text))]
        elif path.suffix in C:
            pieces = [match.span() for match in COMMENT_RE.finditer(text) if match.group(1)]
            bounds = [0, *(at for piece in pieces for at in piece), len(text)]
            for start, end in zip(bounds[::2], bounds[1::2]):
                known.update(WORD_RE.findall(text, start, end))
        else:
            pieces = []
            known.update(WORD_RE.findall(text))
        named += [(path, *place) for place in named_in(text, pieces)]
    for path, line, name in named:
        if name not in known:
            found(path, line, f"names {name}(), which does not exist")
