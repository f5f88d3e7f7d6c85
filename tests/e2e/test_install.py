# SPDX-License-Identifier: Apache-2.0
"""An installed tree works wherever it is unpacked; so do the service files."""

import json
import os
import re
import shlex
import shutil

REPOSITORY_MAKE = ("make", "--no-print-directory", "-o", "all")


def test_installed_tree_runs_a_pool_of_its_own(case):
    tree = case.folder / "tree"
    # -o all: what is tested is what was built, nothing is rebuilt behind our back.
    case.run([*REPOSITORY_MAKE, f"O={case.build}", "PREFIX=/usr", f"DESTDIR={tree}", "install"],
             cwd=case.data.parents[1])
    gpupool = tree / "usr" / "bin" / "gpupool"
    env = {"PATH": f"{gpupool.parent}:/usr/bin:/bin"}
    try:
        case.run([gpupool, "up"], env=env)
        done = case.run([gpupool, "run", "--core", 30, "--memory", "64MiB", "--",
                         case.programs / "vecadd"], env=env)
        case.contains(done.out, ": ok\n", "vecadd")
        said = case.run([gpupool, "doctor"], env=env).out
        case.contains(said, str(tree / "usr" / "lib" / "gpupool"), "where doctor finds the stub")
    finally:
        case.run([gpupool, "down"], env=env, status=None)
    case.check((tree / "usr/share/man/man1/gpupool.1").exists(), "no manual page")


def flags_of_the_manual(case, variable):
    """What deploy/README.md has an operator put into an environment file."""
    text = (case.data.parents[1] / "deploy" / "README.md").read_text(encoding="utf-8")
    return re.search(rf"{variable}=([^'\n]*)'", text).group(1)


def unit_environment(case, service, folder, **more):
    """What the unit's environment files hold when @folder is /etc/gpupool."""
    units = case.data.parents[1] / "deploy" / "systemd"
    text = (units / f"gpupool-{service}.service").read_text(encoding="utf-8")
    names = re.findall(r"^EnvironmentFile=/etc/gpupool/(\S+)$", text, re.M)
    case.equal(len(names), 1, f"the environment file that {service} needs")
    lines = (folder / names[0]).read_text(encoding="utf-8").splitlines()
    return {**dict(line.split("=", 1) for line in lines), **more}


def command_of(case, service, **values):
    """ExecStart of a service file as systemd would run it, on this build."""
    folder = case.data.parents[1] / "deploy" / "systemd"
    text = (folder / f"gpupool-{service}.service").read_text(encoding="utf-8")
    line = re.search(r"^ExecStart=(.*)$", text.replace("\\\n", " "), re.M).group(1)
    for name, value in values.items():
        line = line.replace("${%s}" % name, shlex.quote(str(value))).replace(f"${name}", value)
    case.check("$" not in line, f"a variable that nobody sets: {line}")
    program, *args = shlex.split(line)
    return [case.build / program.removeprefix("/usr/"), *args]


def test_services_start_as_the_manual_has_them(case):
    """With the folders of `gpupool init`, and the driver of the manual's example but for its
    name."""
    (case.folder / "state").mkdir()
    ready = case.folder / "ready"
    port = case.free_port()
    etc = case.folder / "etc"
    case.run([case.build / "bin" / "gpupool", "init", "--dir", etc, "--target", etc,
              "--scheduler", f"127.0.0.1:{port}"])
    scheduler = command_of(
        case, "scheduler", STATE_DIRECTORY=str(case.folder / "state"),
        RUNTIME_DIRECTORY=str(case.folder), **unit_environment(case, "scheduler", etc))
    scheduler[scheduler.index("--listen") + 1] = f"127.0.0.1:{port}"
    server = command_of(
        case, "server", STATE_DIRECTORY=str(case.folder / "server-state"),
        **unit_environment(case, "server", etc, GPUPOOL_SERVER_OWN_FLAGS=flags_of_the_manual(
            case, "GPUPOOL_SERVER_OWN_FLAGS").replace("--driver cuda", "--driver softgpu")))
    daemons = [case.spawn([*scheduler, "--ready-file", ready])]
    case.wait_for(ready.exists, "the scheduler listens")
    daemons.append(case.spawn([*server, "--listen", "127.0.0.1:0"]))
    text = (etc / "client" / "client.env").read_text(encoding="utf-8")
    env = dict(line.split("=", 1) for line in text.splitlines())

    def states():
        out = case.run([case.build / "bin" / "gpupool", "status", "--json"], env=env).out
        return [entry["state"] for entry in json.loads(out)["servers"]]

    case.wait_for(lambda: states() == ["alive"], "the server is in the pool")
    for daemon in reversed(daemons):
        daemon.terminate()
        case.equal(daemon.wait(case.patience), 0, "the end of a daemon")


def test_service_files_are_what_systemd_understands(case):
    analyze = case.need_tool("systemd-analyze")
    root = case.folder / "root"
    units = root / "etc" / "systemd" / "system"
    (root / "usr" / "bin").mkdir(parents=True)
    units.mkdir(parents=True)
    for name in ("scheduler", "server"):
        shutil.copy(case.build / "bin" / f"gpupool-{name}", root / "usr" / "bin")
        shutil.copy(case.data.parents[1] / "deploy" / "systemd" / f"gpupool-{name}.service",
                    units)
    (root / "bin").mkdir()
    shutil.copy(shutil.which("kill"), root / "bin" / "kill")  # for ExecReload=
    for path in ("/usr/lib/systemd/system", "/lib/systemd/system"):
        if os.path.isdir(path):  # targets that they name
            shutil.copytree(path, root / "usr/lib/systemd/system", symlinks=True)
            break
    done = case.run([analyze, "verify", "--man=no", f"--root={root}",
                     *sorted(units.iterdir())], status=None)
    # DelegateSubgroup= is of systemd 254; others ignore it, and say so.
    said = [line for line in done.err.splitlines()
            if "gpupool" in line and "Unknown key 'DelegateSubgroup'" not in line]
    case.equal((done.status, said), (0, []), "what systemd says of them")


def test_services_are_started_until_they_can_run_unless_their_options_are_wrong(case):
    for name in ("scheduler", "server"):
        unit = case.data.parents[1] / "deploy" / "systemd" / f"gpupool-{name}.service"
        lines = unit.read_text(encoding="utf-8").splitlines()
        for wanted in ("Restart=on-failure", "StartLimitIntervalSec=0"):
            case.check(wanted in lines, f"{wanted} in {unit.name}")
        wrong = case.run([case.build / "bin" / f"gpupool-{name}", "--tsl"], status=None)
        case.contains(wrong.err, "unknown option --tsl", "its words")
        case.check(f"RestartPreventExitStatus={wrong.status}" in lines,
                   f"status {wrong.status} in {unit.name}")
