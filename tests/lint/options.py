# SPDX-License-Identifier: Apache-2.0
"""Options come from one place.

No program parses its command line by itself (getopt): common/gp_option.h has the table.
What a program is told otherwise, by the environment, is in the manual pages, or for the
software card in docs/softgpu-card.md: every variable that is read, and no other.  The
scheduler's --help has the areas of its log.  Those of clients are where the command
line looks for what was probably meant.
tests/e2e/test_cli.py compares the options themselves with the pages.
"""

import re
from pathlib import Path

PRODUCTS = {"cli", "client-stub", "common", "drivers", "pool-scheduler", "proto", "server",
            "softgpu", "tls", "transport"}
GETOPT_RE = re.compile(r"\bgetopt(_long(_only)?)?\b|<getopt\.h>")
READ_RE = re.compile(r'"((?:SOFTGPU|GPUPOOL)_[A-Z_]+)"')
NAMED_RE = re.compile(r"\b(?:SOFTGPU|GPUPOOL)_[A-Z_]+\b")
AREA_RE = re.compile(r'(?:gp_log_(?:error|warn|info|debug)\(|\.area =)\s*"([a-z]+)"')
AREAS_RE = re.compile(r"areas: ([a-z ]+)[;)]")
SCHEDULER = Path("pool-scheduler/main.c")
CLIENTS = Path("cli/cli_variables.c")
CLIENT_RE = re.compile(r'"([A-Z_]+)"[,\s]')
# Of systemd's units: what they start the daemons with.
UNITS = {"GPUPOOL_SCHEDULER_FLAGS", "GPUPOOL_SERVER_FLAGS"}


def check(files, found):
    """Calls found(path, line, words) for each place that is wrong."""
    read = {}
    for path in files:
        if path.suffix not in {".c", ".h"} or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if GETOPT_RE.search(line):
                found(path, number, "options are parsed by common/gp_option.h alone")
            if path.parts[0] in PRODUCTS and path != CLIENTS:
                for name in READ_RE.findall(line):
                    read.setdefault(name, (path, number))
    check_variables(read, found)
    check_areas(files, found)


def check_areas(files, found):
    used = set()
    for path in files:
        if path.suffix == ".c" and path.parts[0] == "pool-scheduler" and "kube" not in path.parts:
            used.update(AREA_RE.findall(path.read_text(encoding="utf-8")))
    text = re.sub(r'"\s*"', "", SCHEDULER.read_text(encoding="utf-8")).replace("\\n", " ")
    said = set(AREAS_RE.search(text)[1].split())
    for area in sorted(used ^ said):
        found(SCHEDULER, 1, f"area {area} of the log: used or said, not both")


def check_variables(read, found):
    named = {}
    pages = [*Path("docs/man").iterdir(), *Path("docs").glob("softgpu*.md")]
    for page in pages:
        for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
            for name in NAMED_RE.findall(line):
                named.setdefault(name, (page, number))
    # A prefix stands for the options of a table: GPUPOOL_SERVER_ for GPUPOOL_SERVER_OPTION.
    prefixes = tuple(name for name in read if name.endswith("_"))
    for name in sorted(read.keys() - named.keys()):
        if not (name in prefixes and name + "OPTION" in named):
            found(*read[name], f"{name} is in no manual page")
    table = CLIENTS.read_text(encoding="utf-8").split("names[] = {")[1].split("}")[0]
    looked_for = {f"GPUPOOL_{name}" for name in CLIENT_RE.findall(table)}
    for name in sorted(looked_for ^ {n for n in read if n.startswith("GPUPOOL_") and n not in prefixes}):
        found(CLIENTS, 1, f"{name}: read, or in the table, not both")
    for name in sorted(named.keys() - read.keys() - UNITS):
        if not name.startswith(prefixes):
            found(*named[name], f"{name} is read by no program")
