# SPDX-License-Identifier: Apache-2.0
"""The version is in the file VERSION; what has to repeat it says the same.

Helm reads its chart as it is, and people read the lists of changes.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPEATED = {
    "deploy/chart/gpupool/Chart.yaml": r"(?m)^(?:version|appVersion): (\S+)$",
    "deploy/chart/gpupool/values.yaml": r"gpupool-[a-z-]+:([0-9.]+)",
    "docs/kubernetes.md": r"gpupool-[a-z-]+:([0-9.]+[0-9])",
    "CHANGELOG.md": r"\A# Changes\n+(?:## Unreleased\n(?s:.*?))?^## ([0-9.]+)",
}


def check(found, root=ROOT):
    """Each place that names another version."""
    version = (root / "VERSION").read_text("utf-8").strip()
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found("VERSION", 1, f"{version!r} is not of the form 1.2.3")
    for name, pattern in REPEATED.items():
        text = (root / name).read_text("utf-8")
        matches = list(re.finditer(pattern, text, re.M))
        if not matches:
            found(name, 1, "names no version; VERSION says " + version)
        for match in matches:
            if match[1] != version:
                line = text.count("\n", 0, match.start(1)) + 1
                found(name, line, f"version {match[1]}, and VERSION says {version}")
