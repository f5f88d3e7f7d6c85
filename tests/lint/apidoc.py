# SPDX-License-Identifier: Apache-2.0
"""docs/api-description.md against the generator: the same words, forms and files.

Every word that the reader of descriptions knows (proto/apigen/parse.py, ctypes_.py) stands
in the tables of the document, and no other; every form of a call that is generated or
declared is a row, and every row's form is generated; every generated file has a row.
"""

import re
import sys
from pathlib import Path

DOCUMENT = Path("docs/api-description.md")
FORM_RE = re.compile(r"\b((?:stub|wrk)_(?:[a-z]+_)+|h_|)cu[A-Z]\w*")
# Names with a call's in them that are no form of the call: its frames and its arguments.
NO_FORMS = {"wrk_args_"}


def generator():
    """The generator's modules, and what it generates, by file name."""
    sys.path.insert(0, "proto")
    from apigen import __main__ as main, ctypes_, parse  # pylint: disable=C0415
    from apigen.emit import Output  # pylint: disable=C0415
    out = Output(Path("build/gen"))
    main.make(out)
    return parse, ctypes_, out.files


def table(text, head):
    """What stands in backquotes in the first cells of the table that begins with @head."""
    rows = text.split(f"\n| {head} |", 1)[1].split("\n\n", 1)[0].split("\n")[2:]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])]


def type_words(cells):
    """`u8 u16` are two types; `enum X`, `array T[n] max=N`, `struct X [by value]` are one."""
    found = set()
    for cell in cells:
        words = [re.sub(r"\[.*", "", word) for word in cell.split()]
        several = all(re.fullmatch(r"[a-z]\w*", word) for word in words) and "bulk" not in words
        found |= set(words if several else words[:1])
    return found


def names_of(cell):
    """drv.[ch] are two files; <family> is any."""
    match = re.fullmatch(r"(.*)\[(\w+)\]", cell)
    for name in [match[1] + end for end in match[2]] if match else [cell]:
        yield re.compile(re.escape(name).replace("<family>", r"[a-z]+").replace(r"\*", r"\w+"))


def check(found):
    """Calls found(path, line, words) for each difference."""
    text = DOCUMENT.read_text(encoding="utf-8")
    parse, ctypes_, files = generator()

    def compare(what, known, said):
        for word in sorted(known - said):
            found(DOCUMENT, 1, f"{what} {word}: the generator knows it, the tables do not")
        for word in sorted(said - known):
            found(DOCUMENT, 1, f"{what} {word}: the generator does not know it")

    compare("line", set(parse.LINES), {cell.split()[0] for cell in table(text, "line")})
    compare("type", {"array", *ctypes_.SCALARS, *ctypes_.HANDLES, *parse.NAMED_TYPES,
                     *parse.POINTER_WORDS, *parse.COUNTED_TYPES},
            type_words(table(text, "type")))
    compare("direction", set(parse.DIRECTIONS), set(re.findall(
        r"`(\w+)`", text.split("Directions:", 1)[1].split("\n\n", 1)[0])))
    compare("word", {*parse.LIFE_WORDS, *parse.FLAG_WORDS, *parse.VALUE_WORDS}, set(re.findall(
        r"`(\w+)=?`", text.split("\nWords:", 1)[1].split("\n\n", 1)[0]))
        - {"CUDA_ERROR_INVALID_VALUE"})
    compare("form", {form for file in files.values() for form in FORM_RE.findall(file)}
            - NO_FORMS, {cell.removesuffix("cuX") for cell in table(text, "function")})
    patterns = [name for cell in table(text, "file in `build/gen`") for name in names_of(cell)]
    for name in sorted(files):
        if not any(pattern.fullmatch(name) for pattern in patterns):
            found(DOCUMENT, 1, f"file {name}: generated, and in no row")
    for pattern in patterns:
        if not any(pattern.fullmatch(name) for name in files):
            found(DOCUMENT, 1, f"file {pattern.pattern}: in a row, and not generated")
