#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make pictures`: what `gpupool status` and `gpupool top` print, as SVG.

    terminal.py --build build --into docs/pictures

A pool of two servers with two software cards each is started, the programs of `make demo`
run on slices of it, and what the two commands print meanwhile is drawn as it is, for light
and for dark pages.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

CELL, LINE, SIZE, EDGE, BAR = 7.23, 18, 12, 16, 30
# page, frame, ink, prompt
THEMES = {"": ("#f6f8fa", "#d0d7de", "#1f2328", "#1a7f37"),
          "-dark": ("#161b22", "#30363d", "#e6edf3", "#3fb950")}
# Program, rounds, share, memory, owner: several sessions on a card, and unequal shares.
WORK = (("matmul", 4000, 50, "4GiB", "ada@desk-1"), ("mandelbrot", 20000, 30, "1GiB", "ben@desk-2"),
        ("histogram", 50000, 20, "2GiB", "ada@desk-1"), ("pipeline", 40000, 60, "1GiB", "eve@build"),
        ("reduce", 60000, 40, "512MiB", "ben@desk-2"), ("vecadd", 40000, 25, "1GiB", "eve@build"))
LIMIT_S = 60


class Demo:
    def __init__(self, build):
        self.gpupool = build / "bin/gpupool"
        self.folder = tempfile.TemporaryDirectory(prefix="gpupool-pictures.")
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("GPUPOOL_", "SOFTGPU_"))}
        # Programs are shown by the name that they were started with.
        self.env.update(XDG_RUNTIME_DIR=self.folder.name,
                        PATH=f"{build / 'tests/programs'}:{os.environ['PATH']}")
        self.running = []

    def __enter__(self):
        self.say("up", "--servers", "2", "--cards", "2")
        for name, rounds, core, memory, owner in WORK:
            self.running.append(subprocess.Popen(
                [str(word) for word in (self.gpupool, "run", "--core", core, "--memory", memory,
                                        "--owner", owner, "--", name, rounds)],
                env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return self

    def __exit__(self, *_):
        self.say("down", "--force")
        for process in self.running:
            process.wait()
        self.folder.cleanup()

    def say(self, *words):
        return subprocess.run([str(self.gpupool), *words], env=self.env, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=LIMIT_S).stdout

    def wait_until_all_work(self):
        """Every session has launched something, by its server's report."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            sessions = json.loads(self.say("status", "--json"))["sessions"]
            if len(sessions) == len(WORK) and all(
                    part["launches"] for session in sessions for part in session["slices"]):
                return
            time.sleep(0.2)
        sys.exit(f"terminal.py: not all programs began to work within {LIMIT_S} s")


def picture(theme, looks):
    """@looks: (command, what it printed)."""
    page, frame, ink, prompt = theme
    lines = []
    for command, text in looks:
        lines += [(prompt, "$ ", command), *((ink, "", line) for line in text.splitlines()),
                  (ink, "", "")]
    lines.pop()
    width = 2 * EDGE + CELL * max(len(mark + text) for _, mark, text in lines)
    height = BAR + EDGE + LINE * len(lines)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
           f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{SIZE}">',
           f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8" '
           f'fill="{page}" stroke="{frame}"/>']
    out += [f'<circle cx="{EDGE + 4 + 18 * i}" cy="16" r="5" fill="{frame}"/>' for i in range(3)]
    for number, (colour, mark, text) in enumerate(lines):
        y = BAR + 14 + LINE * number
        length = f' textLength="{CELL * len(mark + text):.1f}" lengthAdjust="spacingAndGlyphs"'
        if text:
            out.append(f'<text x="{EDGE}" y="{y}" fill="{ink}" xml:space="preserve"{length}>'
                       f'<tspan fill="{colour}">{mark}</tspan>{escape(text)}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--into", type=Path, required=True)
    args = parser.parse_args()
    with Demo(args.build.resolve()) as demo:
        demo.wait_until_all_work()
        looks = [("gpupool status", demo.say("status").rstrip()),
                 ("gpupool top", demo.say("top", "--count", "1").rstrip())]
    for suffix, theme in THEMES.items():
        path = args.into / f"terminal{suffix}.svg"
        path.write_text(picture(theme, looks), "utf-8")
        print(path)


if __name__ == "__main__":
    main()
