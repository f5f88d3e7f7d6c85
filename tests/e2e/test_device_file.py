# SPDX-License-Identifier: Apache-2.0
"""Device files.  JAX looks for one before it looks for cards: `gpupool run` says so, once, to
those who have JAX; neither an empty file nor one without a driver behind it makes a driver.
What is absent the server has NVIDIA's own tool make, as the driver's library would."""

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


def need_own_dev(case):
    need_no_file(case)
    if os.geteuid() != 0 or subprocess.run([WITH_FILE, "true"], check=False).returncode != 0:
        case.skip("cannot put a file into a /dev of its own (root)")


def up_and_down(case, *options, **env):
    """A pool in such a /dev, and the log of its server."""
    folder = case.folder / "up"
    folder.mkdir(exist_ok=True)
    words = '"$@" up $OPTIONS && cat "$XDG_RUNTIME_DIR"/gpupool/pool.d/local-1.log && "$@" down'
    done = case.run([WITH_FILE, "sh", "-c", words, "sh", case.build / "bin" / "gpupool"],
                    env={"XDG_RUNTIME_DIR": str(folder), "OPTIONS": " ".join(options), **env})
    return done.out


def test_an_empty_device_file_ends_the_hint_and_is_no_driver(case):
    need_own_dev(case)
    has = python(case, "has")
    pool = case.pool()
    words = [pool.gpupool, "run", "--core", "10", "--memory", "16MiB", "--", has]
    done = case.run([WITH_FILE, *words], env=pool.env)
    case.equal((done.err, done.out), ("", "ran \n"), "said where there is a file")
    # A driver would be loaded and fail: no card is behind the file.
    up_and_down(case)


def test_device_file_without_a_driver_behind_it_is_no_driver(case):
    need_own_dev(case)
    case.contains(up_and_down(case, FILE="node"), "softgpu", "the server's log")


def tool(case, lines):
    """A nvidia-modprobe that writes down how it is called; none of the caller's variables."""
    path = script(case, "modprobe", f"#!/bin/sh\necho \"$*\" >>{case.folder}/calls\n"
                  f"[ -z \"$HOME$XDG_RUNTIME_DIR\" ] || echo env >>{case.folder}/calls\n{lines}")
    return {"FILE": "none", "TOOL": str(path)}


def card_named_by_its_path(case):
    """A software card whose name does not say that it is one."""
    return "--driver", str(case.build / "lib" / "libsoftgpu.so")


def test_server_has_the_device_files_made_that_are_absent(case):
    need_own_dev(case)
    env = tool(case, '''case "$*" in
"-c 255") mknod /dev/nvidiactl c 1 3 ;;
"-c 0 -u") mknod /dev/nvidia-uvm c 1 3 ;;
"-c 1 -u") mknod /dev/nvidia-uvm-tools c 1 3 ;;
esac''')
    log = up_and_down(case, *card_named_by_its_path(case), **env)
    calls = (case.folder / "calls").read_text().splitlines()
    case.equal(calls, ["-c 255", "-c 0 -u", "-c 1 -u"], "how the tool was called")
    case.contains(log, "/dev/nvidia-uvm was not there: /usr/bin/nvidia-modprobe has made it", "log")
    (case.folder / "calls").unlink()
    up_and_down(case, **env)
    case.check(not (case.folder / "calls").exists(), "the tool is called for a software card")


def test_server_says_which_device_file_nobody_could_make(case):
    need_own_dev(case)
    log = up_and_down(case, *card_named_by_its_path(case), **tool(case, "exit 1"))
    case.equal((case.folder / "calls").read_text(), "-c 255\n", "how the tool was called")
    case.contains(log, "/dev/nvidiactl is not there, and /usr/bin/nvidia-modprobe did not make it",
                  "log")
