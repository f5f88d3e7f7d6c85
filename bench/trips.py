#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make bench-trips`: which calls of frameworks wait for the server, and how often.

Runs bench/trips/step_NAME.py on the null driver under `gpupool doctor --trips`, once with
one step and once with eleven: the first run is the start, a tenth of the difference is a
step.  Counts, not times: they are the same on every machine.

The Python that has the frameworks is named by $GPUPOOL_CLIENTS_VENV or --python; those that
it lacks are skipped by name.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FRAMEWORKS = {"pytorch": "torch", "cupy": "cupy", "numba": "numba", "jax": "jax"}
STEPS = 10


def count(options, env, name, steps):
    """The calls of a run: name to (calls, trips)."""
    done = subprocess.run(
        [options.build / "bin" / "gpupool", "doctor", "--json", "--trips", "--core", "100",
         "--memory", "2GiB", "--", options.python, HERE / "trips" / f"step_{name}.py", str(steps)],
        env=env, capture_output=True, text=True, timeout=600, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = {"trips": []}
    if not found["trips"]:
        raise SystemExit(f"trips: {name} made no call (exit status {done.returncode})\n"
                         f"{done.stderr[-2000:]}")
    return {t["call"]: (t["calls"], t["trips"]) for t in found["trips"]}


def table(name, transport, start, end):
    calls, trips = (sum(v[i] for v in start.values()) for i in (0, 1))
    rows = []
    for call, (n, waited) in end.items():
        before = start.get(call, (0, 0))
        rows.append((call, before[0], before[1], (n - before[0]) / STEPS,
                     (waited - before[1]) / STEPS))
    step = sum(r[4] for r in rows)
    print(f"{name} over {transport}: start {calls} calls, {trips} round trips; "
          f"a step {sum(r[3] for r in rows):.1f} calls, {step:.1f} round trips")
    for call, n, waited, each, each_waited in sorted(rows, key=lambda r: (-r[4], -r[2])):
        if waited or each_waited:
            print(f"    {call:56} start {waited:5} of {n:5}   step {each_waited:5.1f} of {each:6.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--python", default=None, help="a Python that has the frameworks")
    parser.add_argument("--only", default="", help="names of frameworks, with commas")
    parser.add_argument("--transport", default="tcp", choices=("tcp", "shm"))
    options = parser.parse_args()
    venv = os.environ.get("GPUPOOL_CLIENTS_VENV", str(options.build / "clients-venv"))
    options.python = options.python or f"{venv}/bin/python"
    if not Path(options.python).exists():
        raise SystemExit(f"trips: no {options.python}; make a virtual environment with torch, "
                         "cupy-cuda12x, numba-cuda and jax[cuda12], and name it in "
                         "GPUPOOL_CLIENTS_VENV")
    gpupool = options.build / "bin" / "gpupool"
    with tempfile.TemporaryDirectory(prefix="gpupool-trips.") as folder:
        env = {**os.environ, "XDG_RUNTIME_DIR": folder, "GPUPOOL_TRANSPORT": options.transport}
        subprocess.run([gpupool, "up", "--driver", "null"], env=env, check=True,
                       stdout=subprocess.DEVNULL)
        try:
            for name, module in FRAMEWORKS.items():
                if options.only and name not in options.only.split(","):
                    continue
                has = subprocess.run([options.python, "-c", "import importlib.util as u, sys;"
                                      f"sys.exit(u.find_spec('{module}') is None)"], check=False)
                if has.returncode:
                    print(f"{name}: skipped, {options.python} has no {module}")
                    continue
                table(name, options.transport, count(options, env, name, 1),
                      count(options, env, name, 1 + STEPS))
        finally:
            subprocess.run([gpupool, "down", "--force"], env=env, check=False,
                           stdout=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
