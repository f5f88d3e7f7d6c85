# SPDX-License-Identifier: Apache-2.0
"""JAX looks for a device file before it looks for cards: `gpupool run` says so, once, to
those who have JAX; an empty file makes no driver."""

import os
import pathlib
import subprocess

NAMES = ("nvidiactl", "nvidia0", "dxg")
WITH_FILE = pathlib.Path(__file__).parents[1] / "clients" / "device_file.sh"


def need_no_file(case):
    if any(pathlib.Path("/dev", name).exists() for name in NAMES):
        case.skip("this machine has a driver's device file")


def python(case, name, packages="lib/python3.11/site-packages", plugin=True):
    """A Python as it is found by its name, with JAX's plug-in or without."""
    prefix = case.folder / name
    (prefix / "bin").mkdir(parents=True)
    program = prefix / "bin" / "python3"
    program.write_text('#!/bin/sh\necho "ran $*"\n')
    program.chmod(0o755)
    if plugin:
        (prefix / packages / "jax_plugins" / "xla_cuda13").mkdir(parents=True)
    return program


def script(case, name, first):
    path = case.folder / name
    path.write_text(f"{first}\n")
    path.chmod(0o755)
    return path


def test_run_names_the_file_to_those_who_have_jax(case):
    need_no_file(case)
    pool = case.pool()
    has, debian, lacks = (python(case, "has"), python(case, "debian", "lib/python3/dist-packages"),
                          python(case, "lacks", plugin=False))
    path = {"PATH": f"{has.parent}:/usr/bin:/bin", "HOME": str(case.folder)}
    through_env = script(case, "tool", "#!/usr/bin/env python3")
    elsewhere = {"PYTHONPATH": f"/nowhere:{has.parents[1]}/lib/python3.11/site-packages"}
    for words, env in (([has], {}), ([debian], {}), (["python3", "-c", "0"], path),
                       ([script(case, "own", f"#!{has} -u")], {}), ([through_env], path),
                       ([lacks], elsewhere)):
        done = pool.run(*words, env=env)
        case.equal(done.err.count("touch /dev/nvidiactl"), 1, f"what to do, for {words}")
        case.contains(done.err, "jax_plugins/xla_cuda13", "where JAX was found")
        case.contains(done.out, "ran", "the program is run all the same")
    for words, env in (([lacks], {"HOME": "/nowhere"}), (["true"], path),
                       ([has], {"JAX_PLATFORMS": "cpu"})):
        case.equal(pool.run(*words, env=env).err, "", f"said to {words} with {env}")
    done = pool.run(has, options=["--env", "JAX_PLATFORMS=cpu"])
    case.equal(done.err, "", "a variable of --env counts too")


def test_an_empty_device_file_ends_the_hint_and_is_no_driver(case):
    need_no_file(case)
    if os.geteuid() != 0 or subprocess.run([WITH_FILE, "true"], check=False).returncode != 0:
        case.skip("cannot put a file into a /dev of its own (root)")
    has = python(case, "has")
    pool = case.pool()
    words = [pool.gpupool, "run", "--core", "10", "--memory", "16MiB", "--", has]
    done = case.run([WITH_FILE, *words], env=pool.env)
    case.equal((done.err, done.out), ("", "ran \n"), "said where there is a file")
    folder = case.folder / "up"
    folder.mkdir()
    # A driver would be loaded and fail: no card is behind the file.
    case.run([WITH_FILE, "sh", "-c", '"$1" up && "$1" down', "sh", pool.gpupool],
             env={"XDG_RUNTIME_DIR": str(folder)})
