# SPDX-License-Identifier: Apache-2.0
"""The files and functions that the guides name: they exist.

In CONTRIBUTING.md and docs/architecture.md every path in backquotes that has a folder and
a suffix matches a file (`*` as in shells; a path with <x> is one that a reader makes), and
in a table row `file | functions` every function stands in one of the files.
"""

import re
from pathlib import Path

GUIDES = ("CONTRIBUTING.md", "docs/architecture.md")
PATH_RE = re.compile(r"`([\w*./-]+/[\w*.-]+\.(?:c|h|mk|py|md|api|lock|proto))`")
NAME_RE = re.compile(r"`(\w+)`")


def check(found, guides=GUIDES):
    """Calls found(path, line, words) for each name that leads nowhere."""
    for guide in map(Path, guides):
        for number, line in enumerate(guide.read_text(encoding="utf-8").split("\n"), 1):
            files = []
            for name in PATH_RE.findall(line):
                matches = list(Path(".").glob(name))
                files += matches
                if not matches:
                    found(guide, number, f"names {name}, which does not exist")
            cells = line.split("|")
            if len(cells) == 4 and PATH_RE.search(cells[1]) and files:
                check_functions(guide, number, files, cells[2], found)


def check_functions(guide, number, files, cell, found):
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for name in NAME_RE.findall(cell):
        if not re.search(rf"\b{name}\b", text):
            found(guide, number, f"names {name}, which is not in the files of its row")
