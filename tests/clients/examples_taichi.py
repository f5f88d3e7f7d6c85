# SPDX-License-Identifier: Apache-2.0
"""Taichi's own examples, as the wheel has them: on the card and on its CPU back end.

Each is run twice, unchanged, in a process of its own (`--one PATH ARCH FILE`) where ti.init()
takes the back end named, ti.GUI is a stand-in that notes what it is given to draw and ends the
program after a few pictures, and each look at the clock finds it ten milliseconds later.  What was drawn and the numbers that were printed must
agree.  Examples that use ti.random() draw other numbers on another back end; of those it is
only asked that they come to their end with finite values.
"""

import itertools
import os
import pathlib
import random
import re
import runpy
import subprocess
import sys
import tempfile
import time

import numpy as np
import taichi as ti

from client import check, main

EXAMPLES = pathlib.Path(ti.__file__).parent / "examples"
LIMIT_S = 240
# Path, pictures, how far numbers may be apart, and which part of them may be farther.  Taichi
# compiles with the approximate functions of each back end; at the borders of a fractal, and
# where a hash is made of a sine, their last bits decide about a pixel.
COMPARED = (
    ("minimal", 1, 0), ("algorithm/laplace", 1, 0),
    ("algorithm/marching_squares", 1, 1e-3, 0.001), ("algorithm/print_offset", 1, 1e-5),
    ("autodiff/minimization", 1, 1e-4), ("features/sparse/explicit_activation", 1, 0),
    ("features/sparse/taichi_bitmasked", 2, 1e-5), ("features/sparse/taichi_sparse", 1, 1e-5),
    ("features/sparse/tutorial", 1, 0), ("rendering/rasterizer", 1, 1e-4),
    ("rendering/simple_uv", 1, 1e-5), ("rendering/taichi_logo", 1, 1e-5, 0.0001),
    ("simulation/fem99", 1, 1e-3), ("simulation/fractal", 1, 0.021, 0.0001),
    ("simulation/initial_value_problem", 2, 1e-4),
    ("simulation/mandelbrot_zoom", 1, 0.03, 0.001),
    ("simulation/mpm_lagrangian_forces", 1, 1e-3), ("simulation/waterwave", 2, 1e-4),
)
FINITE = (("simulation/mpm88", 1), ("simulation/ad_gravity", 2), ("simulation/game_of_life", 2),
          ("simulation/two_stream_instability", 1), ("simulation/vortex_rings", 1))


class Ended(BaseException):
    """The stand-in has shown its last picture."""


class Window:
    """Notes what it is given; a method that it does not have does nothing."""

    pictures = 1
    drawn = []

    def __init__(self, *_, **__):
        self.running = True
        self.frame = 0

    def show(self, *_):
        self.frame += 1
        if self.frame == Window.pictures:
            raise Ended

    def note(self, *what, **_):
        for part in what:
            part = part.to_numpy() if hasattr(part, "to_numpy") else part
            Window.drawn.append(np.array(part, np.float64).ravel())

    set_image = circles = lines = triangles = arrows = circle = line = triangle = note

    def get_cursor_pos(self):
        return 0.4, 0.6

    def slider(self, *_, **__):
        return type("Slider", (), {"value": 0.5})()

    def get_events(self, *_):
        return ()

    def __getattr__(self, name):
        return lambda *_, **__: None


def run_one(path, arch, file, pictures):
    """In a process of its own."""
    init = ti.init

    def init_here(_=None, **options):
        for name in ("arch", "device_memory_fraction", "print_ir"):
            options.pop(name, None)
        init(arch=getattr(ti, arch), random_seed=3, offline_cache=False, device_memory_GB=0.3,
             log_level=ti.ERROR, **options)
        assert ti.lang.impl.current_cfg().arch == getattr(ti, arch), "another back end"

    Window.pictures = int(pictures)
    for key in filter(str.isupper, dir(ti.GUI)):
        setattr(Window, key, getattr(ti.GUI, key))
    ti.init, ti.GUI = init_here, Window
    np.random.seed(1)
    random.seed(1)
    ticks = itertools.count()
    time.time_ns = lambda: next(ticks) * 10_000_000
    time.time = lambda: time.time_ns() / 1e9
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except Ended:
        pass
    np.savez(file, *Window.drawn)


def result(name, pictures, arch, folder):
    """The arrays that @name drew and the numbers that it printed, in ascending order: a
    kernel's threads print in any order."""
    file = pathlib.Path(folder) / f"{arch}.npz"
    done = subprocess.run(
        [sys.executable, __file__, "--one", EXAMPLES / f"{name}.py", arch, file, str(pictures)],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"on {arch}: {done.stdout[-300:]}"
    with np.load(file) as arrays:
        drawn = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
    lines = [line for line in done.stdout.split("\n") if not line.startswith("[Taichi]")]
    printed = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]\d+)?", "\n".join(lines))
    return drawn, np.sort(np.array(printed, np.float64))


def compare(name, pictures, apart, share=0):
    with tempfile.TemporaryDirectory() as folder:
        (cpu, said), (card, said_there) = (result(name, pictures, arch, folder)
                                           for arch in ("cpu", "cuda"))
    assert cpu or said.size, "nothing was drawn or printed"
    assert len(cpu) == len(card), f"{len(cpu)} drawings and {len(card)}"
    for here, there in [*zip(cpu, card), (said, said_there)]:
        assert here.shape == there.shape, f"{here.shape} and {there.shape} numbers"
        far = ~np.isclose(there, here, rtol=max(apart, 1e-6), atol=apart)
        assert far.sum() <= share * far.size, f"{far.sum()} of {far.size} differ"


def finite(name, pictures):
    with tempfile.TemporaryDirectory() as folder:
        drawn, _ = result(name, pictures, "cuda", folder)
    assert drawn and all(np.isfinite(part).all() for part in drawn), "values that are no numbers"


def example(function, name, *rest):
    """A check with the example's name."""
    def one():
        function(name, *rest)
    one.__name__ = name.replace("/", ".")
    check(one)


if sys.argv[1:2] == ["--one"]:
    run_one(*sys.argv[2:])
else:
    for given in COMPARED:
        example(compare, *given)
    for given in FINITE:
        example(finite, *given)
    main(f"Taichi {'.'.join(str(part) for part in ti.__version__)}, {os.cpu_count()} processors")
