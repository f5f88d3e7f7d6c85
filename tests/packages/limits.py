# SPDX-License-Identifier: Apache-2.0
"""Control groups of sessions under a release's own systemd and a kernel that has version 2 of them.

`keep()` makes a root with the packages on this machine and has a guest with a kernel of Debian's
(tests/rdma/rdma-vm) run this file, which boots the root there: a program goes on while its server is
restarted, and killed, and its session has the limits that it had.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import booted  # noqa: E402
import roots  # noqa: E402
from roots import Skip, Trouble, run  # noqa: E402

HERE = Path(__file__).resolve().parent
SERVER, SCHEDULER = "gpupool-server.service", "gpupool-scheduler.service"
GROUPS = f"/sys/fs/cgroup/system.slice/{SERVER}"
DROPIN = f"/etc/systemd/system/{SERVER}.d/override.conf"
# An emulated processor takes ten times as long.
LIMIT_S = 400
GUEST_S = 1500
TASKS = "4096"  # SRV_CGROUP_TASKS


def keep(work, release, top, paths):
    """On this machine.  @paths: the packages of common, client, server and scheduler."""
    root = roots.fresh(work, release, "limits")
    try:
        root.path("/usr/sbin/policy-rc.d").unlink(missing_ok=True)
        for path in paths:
            shutil.copy2(path, root.path("/opt"))
        shutil.copy2(HERE / "long_program.py", root.path("/opt"))
        root.run("apt-get", "-q", "update")
        root.run("apt-get", "-q", "-y", "--no-install-recommends", "install", "systemd-sysv",
                 "dbus", "procps", *booted.dependencies(paths))
        root.run("apt-get", "-q", "-y", "--no-install-recommends", "install",
                 *(f"/opt/{path.name}" for path in paths))
        guest = [top / "tests/rdma/rdma-vm", "--accel", "tcg", "--memory", "6144", "--timeout",
                 str(GUEST_S), "--", sys.executable, "-B", Path(__file__).resolve(), root.folder]
        done = subprocess.run([str(word) for word in guest], capture_output=True, text=True,
                              timeout=2 * GUEST_S, check=False)
    finally:
        roots.remove(root.folder)
    if done.returncode == 125:
        raise Skip(f"no guest with a kernel of Debian's: {done.stderr.strip()[-300:]}")
    if done.returncode != 0:
        raise Trouble(f"in the guest: {(done.stdout + done.stderr).strip()[-2500:]}")


# ---- in the guest

def has_controllers():
    """What the first group hands down; systemd is the first process of a group below it."""
    run(["mount", "-t", "cgroup2", "none", "/mnt"])
    Path("/mnt/cgroup.subtree_control").write_text("+cpu +memory +pids", "utf-8")
    run(["umount", "/mnt"])


class Host(booted.Booted):
    def set_up(self):
        self.run("gpupool", "init", "--scheduler", "127.0.0.1:7480")
        self.path("/etc/gpupool/server.env").write_text(
            "GPUPOOL_SERVER_OWN_FLAGS=--driver softgpu --memory 256MiB\n", "utf-8")
        self.run("systemctl", "start", SERVER, SCHEDULER)
        self.wait(lambda: "registered with scheduler" in self.log(), "the server is registered")

    def log(self):
        return self.run("journalctl", "-u", SERVER, "--no-pager")

    def wait(self, true, what):
        end = time.monotonic() + LIMIT_S
        while not true():
            if time.monotonic() > end:
                raise Trouble(f"not within {LIMIT_S} s: {what}; the server says {self.log()[-1500:]}")
            time.sleep(1)

    def program(self, name):
        """Starts one; it ends when /opt/NAME is there.  What it says goes to /opt/NAME.out."""
        with open(self.path(f"/opt/{name}.out"), "wb") as file:
            return subprocess.Popen(
                ["nsenter", "-t", str(self.first), "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w",
                 "env", "-i", f"PATH={roots.PATH}", "sh", "-c",
                 "set -a; . /etc/gpupool/client/client.env; exec gpupool run --core 100 "
                 f"--memory 64MiB -- python3 /opt/long_program.py /opt/{name}"],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def says(self, name):
        return self.path(f"/opt/{name}.out").read_text("utf-8")

    def limits(self):
        """{group: (memory.max, pids.max)} of sessions that have processes."""
        words = self.run("sh", "-c", f"cd {GROUPS} && for g in gpupool-*/s*; do echo $g "
                         "$(cat $g/memory.max $g/pids.max; wc -l <$g/cgroup.procs); done")
        lines = [line.split() for line in words.splitlines()]
        if any(len(line) != 4 for line in lines):
            return {}
        return {group: (memory, pids) for group, memory, pids, n in lines if n != "0"}

    def ends_well(self, name, child):
        self.path(f"/opt/{name}").touch()
        child.wait(LIMIT_S)
        if not self.says(name).endswith("long ok\n"):
            raise Trouble(f"the program says {self.says(name)[-600:]!r}; {self.log()[-1500:]}")


def server_goes(host, child, *words):
    """@words end the server's process; then there is another one."""
    limits, before = host.limits(), host.state(SERVER, "MainPID")
    host.run("systemctl", *words, SERVER)
    host.wait(lambda: host.state(SERVER) == "active" and
              host.state(SERVER, "MainPID") not in (before, "0"), f"systemctl {words}: another server")
    host.wait(lambda: host.limits() == limits, f"systemctl {words}: limits {limits}, "
              f"now {host.limits()}")
    if child.poll() is not None:
        raise Trouble(f"systemctl {words}: the program says {host.says('enough')[-600:]!r}")


def moves_where_there_is_no_clone3(host):
    """A filter such as a container has answers ENOSYS: workers move to their group."""
    host.path(DROPIN).parent.mkdir(exist_ok=True)
    host.path(DROPIN).write_text("[Service]\nRestrictNamespaces=yes\n", "utf-8")
    host.run("systemctl", "stop", SERVER)  # and its keeper, which starts the workers
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", SERVER)
    child = host.program("second")
    host.wait(lambda: "launch 1\n" in host.says("second") or child.poll() is not None, "a second program")
    if not host.limits():
        raise Trouble(f"it is in no group, and says {host.says('second')[-600:]!r}; "
                      f"{host.log()[-1500:]}")
    host.ends_well("second", child)


def main():
    booted.BOOT_S = LIMIT_S
    has_controllers()
    host = Host(roots.Root(Path(sys.argv[1])), "/tmp/console")
    try:
        host.set_up()
        child = host.program("enough")
        host.wait(lambda: "launch 1\n" in host.says("enough") or child.poll() is not None, "a program")
        limits = list(host.limits().values())
        if len(limits) != 1 or not limits[0][0].isdigit() or limits[0][1] != TASKS:
            raise Trouble(f"limits of the session {limits}; the program says "
                          f"{host.says('enough')[-600:]!r}")
        server_goes(host, child, "restart")
        server_goes(host, child, "kill", "--kill-whom=main", "-s", "KILL")
        server_goes(host, child, "restart")
        host.ends_well("enough", child)
        moves_where_there_is_no_clone3(host)
    finally:
        host.close()


if __name__ == "__main__":
    try:
        main()
    except (Skip, Trouble) as trouble:
        sys.exit(str(trouble))
