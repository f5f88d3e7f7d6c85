# SPDX-License-Identifier: Apache-2.0
"""Retired words: docs/words.md lists them, with what is said instead.

A word counts wherever it stands for itself or as a part of an identifier
(`wrk_word_wait`, `XPORT_WORD`), in the folders that its row names.  Identifiers of the
released wire format, which the document lists too, are left alone.
"""

import re
from pathlib import Path

DOCUMENT = Path("docs/words.md")
HEADING = "## Retired words"
ALL = ("client-stub", "server", "drivers", "transport", "common", "proto", "pool-scheduler",
       "cli", "softgpu", "tests", "docs", "README.md", "CONTRIBUTING.md")
SUFFIXES = {".c", ".h", ".def", ".api", ".proto", ".md", ".py", ".sh", ".mk", ".1", ".7", ".8"}
ROW_RE = re.compile(r"^\|([^|]+)\|([^|]+)\|([^|]+)\|$")
KEPT_RE = re.compile(r"^Kept for the wire: (.+?)\.$", re.M | re.S)


class Retired:
    """One row: its words, the folders where they must not stand, what to say instead."""

    def __init__(self, words, folders, instead):
        self.re = re.compile(r"(?<![A-Za-z])(%s)(?![A-Za-z])" % "|".join(words), re.I)
        self.folders = ALL if folders == ["all"] else tuple(folders)
        self.instead = instead

    def covers(self, path):
        return path.parts[0] in self.folders


def read(text):
    """The rows of the table, and a pattern of the identifiers that are kept."""
    section = text.split(HEADING, 1)[1]
    rows = [ROW_RE.match(line) for line in section.split("\n")]
    cells = [[cell.strip() for cell in row.groups()] for row in rows if row][2:]
    kept = [word.strip(" `\n") for word in KEPT_RE.search(section).group(1).split(",")]
    return ([Retired(words.split(", "), folders.split(), instead)
             for words, folders, instead in cells],
            re.compile("|".join(map(re.escape, kept))))


def check(files, found):
    """found(path, line, words) for each retired word in the tracked @files."""
    if not DOCUMENT.is_file():
        return
    table, kept = read(DOCUMENT.read_text(encoding="utf-8"))
    for path in files:
        mine = [row for row in table if row.covers(path)]
        if not mine or path.suffix not in SUFFIXES or path == DOCUMENT or not path.is_file():
            continue
        for number, line in enumerate(
                path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
            line = kept.sub("", line)
            for row in mine:
                for match in row.re.finditer(line):
                    found(path, number, f'retired word "{match.group(1)}": {row.instead} '
                                        f"({DOCUMENT})")
