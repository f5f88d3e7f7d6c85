# SPDX-License-Identifier: Apache-2.0
"""What a header says of the file that has its functions is so.

A comment that begins with a file (`/* sched_pod.c */`, `/* lower_alu.c: ...`) stands above the
prototypes of what that defines, up to the next such comment.  Of several files it is any.
"""

import re
from pathlib import Path

FILES_RE = re.compile(r"/\* (?:-+ )?(\w+\.c(?:, \w+\.c)*)(?:[:.]? .*)?")
PROTOTYPE_RE = re.compile(r"(?!static|typedef|return|else|extern)\w[\w \*]*[ \*](\w+)\(")


def check(files, found):
    """Calls found(path, line, words) for each prototype that is under another file's name."""
    sources = {}
    for path in files:
        if path.suffix == ".c" and path.is_file():
            sources.setdefault(path.name, []).append(path)
    defined = {}

    def defines(name, function):
        if name not in defined:
            defined[name] = {word for path in sources[name] for word in re.findall(
                r"^(\w+)\(", path.read_text(encoding="utf-8", errors="replace"), re.M)}
        return function in defined[name]

    for path in files:
        if path.suffix != ".h" or not path.is_file():
            continue
        names = []
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            section, prototype = FILES_RE.fullmatch(line), PROTOTYPE_RE.match(line)
            if section:
                names = [name for name in section[1].split(", ") if name in sources]
            elif names and prototype and not any(defines(name, prototype[1]) for name in names):
                found(path, number, f"{prototype[1]}() is not in {' or '.join(names)}")
