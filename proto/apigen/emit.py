# SPDX-License-Identifier: Apache-2.0
"""Writing of generated files: same bytes for the same input, touched only on change."""

from __future__ import annotations

from pathlib import Path

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"


class Text:
    """A C file in the making."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, *lines: str) -> None:
        self.lines.extend(lines)

    def text(self) -> str:
        return "\n".join(self.lines).rstrip("\n") + "\n"


class Output:
    """Collects files and writes those that differ."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, str] = {}

    def c_file(self, name: str, about: str, body: Text) -> None:
        """A generated C source or header."""
        head = f"{SPDX}/* {about}\n *\n * Generated from proto/api: do not edit. */\n"
        if name.endswith(".h"):
            guard = "GEN_" + name.replace(".", "_").upper()
            text = f"{head}#ifndef {guard}\n#define {guard}\n\n{body.text()}\n#endif\n"
        else:
            text = head + body.text()
        self.files[name] = text

    def plain(self, name: str, text: str) -> None:
        """A generated file of any other kind."""
        self.files[name] = text

    def write(self) -> int:
        """Write what changed; returns how many files that were."""
        self.folder.mkdir(parents=True, exist_ok=True)
        written = 0
        for name, text in sorted(self.files.items()):
            path = self.folder / name
            if path.exists() and path.read_text() == text:
                continue
            path.unlink(missing_ok=True)
            path.write_text(text)
            path.chmod(0o444)
            written += 1
        return written
