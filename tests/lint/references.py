# SPDX-License-Identifier: Apache-2.0
"""What documents refer to exists.

In every tracked Markdown file: the file of a relative link and the heading behind its #; each
source file that is named in backquotes, by its name alone or with folders; each test that
is named (`test_x`, `file.function`) or selected (`make test-e2e ONLY=...`); each target of
`make`.  tests/e2e/test_cli.py has the commands and options of our programs.  Generated
sources and their names are apidoc.py's matter.
"""

import ast
import fnmatch
import re
from pathlib import Path

LINK_RE = re.compile(r'\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"')
CODE_RE = re.compile(r"`([^`]+)`")
SOURCE_RE = re.compile(r"[\w./-]*\w\.(?:c|h|def|py|sh|mk|api|proto)")
ONLY_RE = re.compile(r"make test-(?:e2e|unit|attacks|chaos|rdma)\b[^`]*?ONLY=(?:'([^']+)'|(\S+))")
MAKE_RE = re.compile(r"`make((?: +(?:[A-Z_]+=(?:'[^'`]*'|[^ '`]+)|[a-z][a-z0-9-]*))+)`")
TARGET_RE = re.compile(r"^([a-z][a-z0-9 -]*?):(?!=)|\$\(call needs,([a-z0-9-]+),", re.M)
UNIT_RE = re.compile(r"test_[a-z0-9]\w*[a-z0-9]")
# Documents with names that are not of this repository's files or tests: what was, and the
# tables of generated files and of mended faults.
HISTORY = {Path("CHANGELOG.md"), Path("docs/api-description.md"), Path("docs/fuzzing.md")}
# Files of others, of their test suites and of readers.
FOREIGN = {"mem_scrub.c", "gcc.c", "train.py", "for-3.c", "for-5.c", "pr98736.c", "test_ipc"}


def anchor(heading):
    """As GitHub makes it: lower case, blanks as hyphens, no other punctuation."""
    bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", bare).replace(" ", "-")


def anchors(text):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def unit_tests():
    text = "\n".join(path.read_text(encoding="utf-8")
                     for path in Path("tests").rglob("build.mk"))
    return set(re.findall(r"\btest_[a-z0-9_]+", text))


def e2e_tests():
    names = []
    for path in Path("tests/e2e").glob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        names += [f"{path.stem.removeprefix('test_')}.{node.name.removeprefix('test_')}"
                  for node in tree.body
                  if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return names


def make_targets():
    text = "\n".join(path.read_text(encoding="utf-8")
                     for path in [Path("Makefile"), *Path(".").glob("*/**/build.mk")])
    return {name for found in TARGET_RE.findall(text) for name in " ".join(found).split()}


def selects(pattern, names):
    """As tests/run.py does with one word of ONLY."""
    return any(pattern in name or fnmatch.fnmatch(name, pattern) for name in names)


def check_links(path, line, text, headings, found):
    for groups in LINK_RE.findall(line[1]):
        target, _, place = (groups[0] or groups[1]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        other = (path.parent / target) if target else path
        if not other.exists():
            found(path, line[0], f"links to {target}, which does not exist")
        elif place and other.suffix == ".md":
            if other not in headings:
                headings[other] = anchors(text if other == path else
                                          other.read_text(encoding="utf-8"))
            if place not in headings[other]:
                found(path, line[0], f"links to #{place}, a heading that is not in {other}")


def check_names(path, number, line, known, found):
    for code in CODE_RE.findall(line):
        if SOURCE_RE.fullmatch(code) and Path(code).name not in known["files"] | FOREIGN:
            found(path, number, f"names {code}, which does not exist")
        if UNIT_RE.fullmatch(code) and code not in known["unit"] | FOREIGN and \
                not selects(code.removeprefix("test_"), known["e2e"]):
            found(path, number, f"names {code}, which is no test")
        if re.fullmatch(r"[a-z_]+\.[a-z_]{12,}", code) and \
                code.split(".")[0] in known["modules"] and code not in known["e2e"]:
            found(path, number, f"names {code}, which is no test")
    for words in MAKE_RE.findall(line):
        for word in re.sub(r"'[^']*'", "", words).split():
            if "=" not in word and not {word, word + "-built"} & known["targets"]:
                found(path, number, f"names make {word}, which is no target")
    for quoted, bare in ONLY_RE.findall(line):
        for pattern in (quoted or bare.strip("`,.;:)")).split():
            if not selects(pattern, known["all"]):
                found(path, number, f"ONLY={pattern} selects no test")


def check(files, found):
    """Calls found(path, line, words) for each reference that leads nowhere."""
    e2e, unit = set(e2e_tests()), unit_tests()
    known = {"targets": make_targets(), "files": {path.name for path in files}, "unit": unit, "e2e": e2e,
             "all": e2e | unit, "modules": {name.split(".")[0] for name in e2e}}
    headings = {}
    for path in files:
        if path.suffix != ".md" or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.split("\n"), 1):
            check_links(path, (number, line), text, headings, found)
            if path not in HISTORY:
                check_names(path, number, line, known, found)
