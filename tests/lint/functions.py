# SPDX-License-Identifier: Apache-2.0
"""Functions, files and other things that comments of C files and documents name exist.

A `some_name()` in a comment of a C file, or anywhere in a Markdown file, must be a word
of some source's code: a definition, a call, or a pattern of the generator.  Names of one
word and of capitals (`main()`, `cuMemFree()`) may be anybody's.  So must every other name
that begins as those of our layers do (`struct srv_session`, `XPORT_ACK_BULK`), whatever
stands around it.  A file that a comment names (`wrk_loop.c`) is one of ours, or generated;
references.py has those of documents.
"""

import re
from pathlib import Path

NAME_RE = re.compile(r"(?<![\w.])([a-z][a-z0-9]*_\w*[a-z0-9])\(\)")
LAYERS = ("attach", "cli", "ctl", "ctrl", "exec", "gov", "gp", "h", "kube", "ptx", "sched", "sg",
          "srv", "store", "stub", "ticket", "tls", "view", "wire", "wrk", "xport")
# A dot or a star behind it: a file without its folder, or several names.
OURS_RE = re.compile(r"(?<![\w./-])((?:%s)_\w*[A-Za-z0-9])(?![\w*(<-]|\.\w)" % "|".join(
    (*LAYERS, *map(str.upper, LAYERS))))
FILE_RE = re.compile(r"(?<![\w./<*-])([a-z]\w*\.(?:c|h|def|api))(?!\w)")
WORD_RE = re.compile(r"\b[A-Za-z]\w*_\w+")
COMMENT_RE = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(/\*.*?\*/|//[^\n]*)', re.S)
C = {".c", ".h", ".cu", ".def"}
CODE = C | {".api", ".py", ".proto", ".mk", ".sh"}
HISTORY = {Path("CHANGELOG.md")}
# What libraries, the kernel and programs of users call theirs.
FOREIGN = {"sched_autogroup_enabled"}
# Forms of a call, which the generator makes (docs/api-description.md; apidoc.py).
FORM_RE = re.compile(r"_cu[A-Z]")
# Words that the preprocessor makes of a part.
PASTED = ("PTX_W_",)
# Headers of libraries and of the kernel.
FOREIGN_FILES = {"cuda.h", "cudaEGL.h", "cudaGL.h", "cudaVDPAU.h", "fcntl.h", "fs.h", "landlock.h", "sched.h", "tcp.h"}


def places(text, pieces, pattern):
    """(line, name) of each name of @pattern in these pieces of @text."""
    for start, end in pieces:
        for match in pattern.finditer(text, start, end):
            yield text.count("\n", 0, match.start()) + 1, match.group(1)


def made(name):
    """Is it a name that stands for others, or one that no source spells out?"""
    return FORM_RE.search(name) or name.startswith(PASTED)


def generated(path, text):
    """Files that a build.mk or the generator makes, by name."""
    if path.suffix in {".mk", ".py"}:
        return re.findall(r"[\w-]+\.(?:c|h|def)\b", text)
    return [path.stem + ".pb-c.h"] if path.suffix == ".proto" else []


def check(files, found):
    """Calls found(path, line, words) for each name of something that does not exist."""
    known, named, ours, sources = set(FOREIGN), [], [], []
    names = {path.name for path in files} | FOREIGN_FILES
    known |= {path.stem.removeprefix("test_") for path in files}
    for path in files:
        if path.suffix not in CODE | {".md"} or path in HISTORY or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        names.update(generated(path, text))
        if path.suffix == ".md":
            pieces = [(0, len(text))]
        elif path.suffix in C:
            pieces = [match.span() for match in COMMENT_RE.finditer(text) if match.group(1)]
            bounds = [0, *(at for piece in pieces for at in piece), len(text)]
            for start, end in zip(bounds[::2], bounds[1::2]):
                known.update(WORD_RE.findall(text, start, end))
            sources += [(path, *place) for place in places(text, pieces, FILE_RE)]
        else:
            pieces = []
            known.update(WORD_RE.findall(text))
        named += [(path, *place) for place in places(text, pieces, NAME_RE)]
        ours += [(path, *place) for place in places(text, pieces, OURS_RE)]
    for path, line, name in named:
        if name not in known:
            found(path, line, f"names {name}(), which does not exist")
    for path, line, name in ours:
        if name not in known and not made(name):
            found(path, line, f"names {name}, which does not exist")
    for path, line, name in sources:
        if name not in names:
            found(path, line, f"names {name}, which does not exist")
