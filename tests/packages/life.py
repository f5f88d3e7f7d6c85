# SPDX-License-Identifier: Apache-2.0
"""The Debian packages as an operator lives with them, on a host whose systemd runs."""

import hashlib
import shutil
import subprocess
import time
from pathlib import Path

import booted
import roots
from roots import Trouble

HERE = Path(__file__).resolve().parent
UNITS = ("gpupool-server.service", "gpupool-scheduler.service")
UNITS_PACKAGES = [unit.removesuffix(".service") for unit in UNITS]
DROPIN = "/etc/systemd/system/gpupool-server.service.d/override.conf"
LIMIT_S = 120


class Life:
    def __init__(self, host, version, before, after):
        self.host, self.version, self.before, self.after = host, version, before, after

    def install(self, paths):
        """What it said.  Newer packages or older ones, or the same again."""
        return self.host.run("apt-get", "-q", "-y", "--no-install-recommends",
                             "--allow-downgrades", "--reinstall", "install", *paths)

    def systemctl(self, *words):
        self.host.run("systemctl", *words)

    def pid(self, unit):
        return self.host.state(unit, "MainPID")

    def belongings(self):
        """Of the operator: settings, keys, what `systemctl edit` made."""
        folder = self.host.path("/etc/gpupool")
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(),
                            path.stat().st_mode, path.stat().st_uid, path.stat().st_gid)
                for path in [*paths, self.host.path(DROPIN)]}

    def set_up(self):
        said = self.install(self.before)
        if said.count("enabled, but not started: there is no /etc/gpupool/") != 2:
            raise Trouble(f"the installation says {said[-800:]!r}")
        self.host.run("gpupool", "init", "--scheduler", "127.0.0.1:7480")
        self.host.path("/etc/gpupool/server.env").write_text(
            "GPUPOOL_SERVER_OWN_FLAGS=--driver softgpu --memory 256MiB\n", "utf-8")
        self.host.path(DROPIN).parent.mkdir()
        self.host.path(DROPIN).write_text("[Service]\nTasksMax=4000\n", "utf-8")
        self.systemctl("daemon-reload")
        self.systemctl("start", *UNITS)
        self.host.wait_state("active", *UNITS)
        end = time.monotonic() + LIMIT_S
        while "registered with scheduler" not in self.log():
            if time.monotonic() > end:
                raise Trouble(f"the server does not register: {self.log()[-600:]!r}")
            time.sleep(0.2)

    def log(self):
        return self.host.run("journalctl", "-u", UNITS[0], "--no-pager")

    def program(self):
        """Of a user, with a kernel that runs."""
        out = self.host.path("/opt/long.out")
        with open(out, "wb") as file:
            child = subprocess.Popen(
                ["nsenter", "-t", str(self.host.first), "-m", "-p", "-u", "-i", "-n", "-C",
                 "-r", "-w", "env", "-i", f"PATH={roots.PATH}", "sh", "-c",
                 "set -a; . /etc/gpupool/client/client.env; exec gpupool run --core 100 "
                 "--memory 64MiB -- python3 /opt/long_program.py /opt/enough"],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        end = time.monotonic() + LIMIT_S
        while "launch 1\n" not in out.read_text("utf-8"):
            if child.poll() is not None or time.monotonic() > end:
                child.kill()
                raise Trouble(f"the program says {out.read_text('utf-8')[-600:]!r}")
            time.sleep(0.2)
        return child, out

    def upgrade_ends_no_program(self):
        kept, pids = self.belongings(), [self.pid(unit) for unit in UNITS]
        child, out = self.program()
        try:
            self.install(self.after)
            self.host.wait_state("active", *UNITS)
            now = [self.pid(unit) for unit in UNITS]
            # systemd cannot start a unit whose sessions go on before 254, so the process
            # stays and starts the new program.
            newest = self.host.run("systemctl", "--version").split()[1]
            if (now[0] == pids[0]) != (int(newest) < 254) or now[1] == pids[1]:
                raise Trouble(f"systemd {newest}: processes {pids} before, {now} after")
            if "took over 1 session and 1 worker" not in self.log():
                raise Trouble(f"the server says {self.log()[-600:]!r}")
            self.host.path("/opt/enough").touch()
            child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            child.kill()
        if not out.read_text("utf-8").endswith("long ok\n"):
            raise Trouble(f"upgraded, and the program says {out.read_text('utf-8')[-600:]!r}")
        if self.belongings() != kept:
            raise Trouble("an upgrade changes files of the operator")
        self.host.run("dpkg", "--verify", "gpupool-common", "gpupool-client",
                      "gpupool-server", "gpupool-scheduler")

    def what_is_stopped_stays_stopped(self):
        self.systemctl("stop", *UNITS)
        for act in (lambda: self.install(self.before), lambda: self.install(self.after),
                    lambda: self.host.run("dpkg-reconfigure", "gpupool-server",
                                          "gpupool-scheduler")):
            act()
            running = [unit for unit in UNITS if self.host.state(unit) != "inactive"]
            if running:
                raise Trouble(f"{running} were stopped by the operator, and run")
        self.systemctl("mask", "--now", UNITS[0])
        self.install(self.after)
        self.systemctl("unmask", UNITS[0])
        if self.host.state(UNITS[0]) != "inactive":
            raise Trouble("a unit that was masked runs")
        self.systemctl("start", *UNITS)

    def files_that_lost_their_group_are_named(self):
        self.host.run("chgrp", "-R", "root", "/etc/gpupool/scheduler")
        words = "the group gpupool, as which "
        for said in (self.host.run("gpupool", "init", "--check", status=1),
                     self.host.run("dpkg-reconfigure", "gpupool-scheduler")):
            if words not in said or "ticket-key.pem" not in said:
                raise Trouble(f"the scheduler cannot read its keys: {said!r}")
        self.host.run("chgrp", "-R", "gpupool", "/etc/gpupool/scheduler")
        self.host.run("gpupool", "init", "--check")
        self.systemctl("restart", "gpupool-scheduler")

    def goes_and_comes_back(self):
        kept = self.belongings()
        self.host.run("apt-get", "-q", "-y", "remove", *UNITS_PACKAGES)
        self.host.wait_state("inactive", *UNITS)
        if not self.host.path("/var/lib/private/gpupool-scheduler/scheduler.db").exists():
            raise Trouble("removed, and the scheduler's state is gone")
        self.install(self.after)
        self.host.wait_state("active", *UNITS)
        self.host.run("apt-get", "-q", "-y", "purge", "gpupool*")
        left = self.host.run("sh", "-c", "pgrep -la gpupool; find / /run /dev/shm -xdev \\( "
                             "-path /proc -o -path /opt -o -path /tmp \\) -prune -o -name "
                             "'*gpupool*' -print").splitlines()
        if set(left) != {"/etc/gpupool", str(Path(DROPIN).parent)}:
            raise Trouble(f"purged, and there is still {left}")
        if self.belongings() != kept:
            raise Trouble("purging changes files of the operator")
        self.install(self.after)
        self.host.wait_state("active", *UNITS)


def live(work, release, version, paths):
    """@paths: the packages of common, client, server and scheduler."""
    root = roots.fresh(work, release, "booted")
    host = None
    try:
        root.path("/usr/sbin/policy-rc.d").unlink(missing_ok=True)
        for name in ("before", "after"):
            root.path(f"/opt/{name}").mkdir(parents=True)
        before = [booted.older(path, root.path("/opt/before"), version) for path in paths]
        after = [Path(shutil.copy2(path, root.path("/opt/after"))) for path in paths]
        shutil.copy2(HERE / "long_program.py", root.path("/opt"))
        root.run("apt-get", "-q", "update")
        root.run("apt-get", "-q", "-y", "--no-install-recommends", "install", "systemd-sysv",
                 "dbus", "procps", *booted.dependencies(paths))
        host = booted.Booted(root, work / f"booted-{release}.log")
        life = Life(host, version, *([f"/opt/{path.parent.name}/{path.name}" for path in some]
                                     for some in (before, after)))
        life.set_up()
        life.upgrade_ends_no_program()
        life.what_is_stopped_stays_stopped()
        life.files_that_lost_their_group_are_named()
        life.goes_and_comes_back()
    finally:
        if host:
            host.close()
        roots.remove(root.folder)
