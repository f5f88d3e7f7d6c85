#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages from their prose (*.in) and the options of the programs (PROGRAM --mdoc).

    pages.py --build BUILD [--check]

writes docs/man/*.[1-8], or with --check says which of them are not what would be written.
A page's prose is mdoc(7).  Lines that begin with @ are ours:

    @options PROGRAM WORD..., PROGRAM WORD...
        a list of the options of these commands, in the order of their tables
    @without NAME...
        leave these out: another place of the page has them
    @only NAME...
        leave out all others
    @NAME...
        what follows is said of this option instead of what --help says; several
        names are one item
    @end

Whoever names an option that the commands do not have is refused.
"""

import argparse
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent
HEADER = '.\\" Made by docs/man/pages.py from {}: change that, or the table of the option.\n'
# Of every program.
EVERYWHERE = {"help", "version"}
ITEM_RE = re.compile(r"^\.It .*?Fl -([a-z][a-z0-9-]*)")


LIVE = ".Dv SIGHUP ."


class Wrong(Exception):
    pass


def options_of(build, command):
    """{name: (head, words)} of a command, as its --mdoc says."""
    program, *args = command.split()
    done = subprocess.run([build / "bin" / program, *args, "--mdoc"], check=True, text=True,
                          stdout=subprocess.PIPE)
    found, name = {}, None
    for line in done.stdout.splitlines():
        if line.startswith(".It "):
            name = ITEM_RE.match(line)[1]
            found[name] = (line.removeprefix(".It "), [])
        else:
            found[name][1].append(line)
    return {name: option for name, option in found.items() if name not in EVERYWHERE}


class List:
    """One @options ... @end."""

    def __init__(self, build, place, commands):
        self.place = place
        self.commands = [command.strip() for command in commands.split(",")]
        self.options, self.of = {}, {}
        for command in self.commands:
            for name, option in options_of(build, command).items():
                head, words = self.options.setdefault(name, option)
                if head != option[0]:  # of another choice of words
                    self.options[name] = (f"Fl -{name} Ar {name}", words)
                self.of.setdefault(name, []).append(command.split()[-1])
        self.prose = []  # (names, lines)

    def known(self, names):
        for name in names:
            if name not in self.options:
                raise Wrong(f"{self.place}: {', '.join(self.commands)}: no option --{name}")
        return names

    def line(self, line):
        word, _, rest = line.partition(" ")
        if word == "@without":
            for name in self.known(rest.split()):
                del self.options[name]
        elif word == "@only":
            kept = set(self.known(rest.split()))
            self.options = {n: option for n, option in self.options.items() if n in kept}
        elif line.startswith("@"):
            self.prose.append((self.known(line[1:].split()), []))
        elif self.prose:
            self.prose[-1][1].append(line)
        else:
            raise Wrong(f"{self.place}: prose before the first @NAME")

    def live(self, name):
        """What --mdoc says of an option that a running program reads again."""
        words = self.options[name][1]
        return words[-2:] if words[-1:] == [LIVE] else []

    def whose(self, name):
        """Which of several commands have it, when not all do."""
        if len(self.of[name]) == len(self.commands):
            return []
        return [f"Only for\n.Cm {' , '.join(self.of[name])} ."]

    def text(self):
        group = {name: names for names, _ in self.prose for name in names}
        said = {names[0]: lines for names, lines in self.prose}
        out = [".Bl -tag -width Ds"]
        for name, (head, words) in self.options.items():
            names = group.get(name, [name])
            if name != min(names, key=list(self.options).index):
                continue
            out.append(".It " + " , ".join(self.options[n][0] for n in names))
            out += said[names[0]] + self.live(names[0]) if names[0] in said else words
            out += self.whose(names[0])
        return out + [".El"]


def page(build, source):
    out, options = [], None
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{source.name}:{number}"
        if line.startswith("@options "):
            options = List(build, place, line.removeprefix("@options "))
        elif line == "@end":
            out += options.text()
            options = None
        elif options:
            options.place = place
            options.line(line)
        elif line.startswith("@"):
            raise Wrong(f"{place}: {line.split()[0]} outside of a list")
        else:
            out.append(line)
            if number == 1:
                out.append(HEADER.format(source.name).rstrip("\n"))
    if options:
        raise Wrong(f"{source.name}: no @end")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    args = parser.parse_args()
    stale = []
    try:
        for source in sorted(args.folder.glob("*.in")):
            text, made = page(args.build, source), source.with_suffix("")
            if made.exists() and made.read_text(encoding="utf-8") == text:
                continue
            stale.append(made.name)
            if not args.check:
                made.write_text(text, encoding="utf-8")
    except Wrong as wrong:
        sys.exit(f"pages.py: {wrong}")
    if args.check and stale:
        sys.exit(f"pages.py: not as `make man` writes them: {', '.join(stale)}")


if __name__ == "__main__":
    main()
