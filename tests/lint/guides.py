# SPDX-License-Identifier: Apache-2.0
"""The files and functions that the guides name exist, and each folder has a place in them.

In CONTRIBUTING.md and docs/architecture.md every path in backquotes that has a folder and
a suffix matches a file (`*` as in shells; a path with <x> is one that a reader makes), and
in a table row `file | functions` every function stands in one of the files.  Each folder of
sources, down to two levels, is named in the tables of folders of docs/architecture.md, where
`name` in a row of the folder above it counts too.
"""

import re
from pathlib import Path

GUIDES = ("CONTRIBUTING.md", "docs/architecture.md")
PATH_RE = re.compile(r"`([\w*./-]+/[\w*.-]+\.(?:c|h|mk|py|md|api|lock|proto))`")
NAME_RE = re.compile(r"`(\w+)`")
NAME_OF_FOLDER_RE = re.compile(r"`([\w./-]+)`")
WITHOUT_FOLDERS = {"docs"}  # its parts are the documents themselves


def check(files, found, guides=GUIDES):
    """Calls found(path, line, words) for each name that leads nowhere."""
    check_folders(files, found)
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


def check_folders(files, found, guide=Path("docs/architecture.md")):
    """Whoever adds a folder says there what it is for."""
    rows = [line for line in guide.read_text(encoding="utf-8").split("\n")
            if line.startswith("| `")]
    named = {name for row in rows for name in NAME_OF_FOLDER_RE.findall(row.split("|")[1])}
    inside = {(above, name) for row in rows for above in NAME_OF_FOLDER_RE.findall(
        row.split("|")[1]) for name in NAME_OF_FOLDER_RE.findall(row.split("|")[2])}
    for folder in sorted({Path(*path.parts[:2]) for path in files if len(path.parts) > 2}):
        if str(folder) not in named and (str(folder.parent), folder.name) not in inside and \
                folder.parts[0] not in WITHOUT_FOLDERS:
            found(guide, 1, f"has no row for the folder {folder}")


def check_functions(guide, number, files, cell, found):
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for name in NAME_RE.findall(cell):
        if not re.search(rf"\b{name}\b", text):
            found(guide, number, f"names {name}, which is not in the files of its row")
