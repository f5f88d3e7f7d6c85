# SPDX-License-Identifier: Apache-2.0
"""A root of Debian whose systemd runs: what a package's scripts meet on a host.

It needs no systemd here: the root's own is the first process of namespaces, with a
network of its own, and ends with them.
"""

import os
import re
import shutil
import subprocess
import time

import roots
from roots import Skip, Trouble, run

BOOT_S = 120
# A control group for it beside ours, which goes with it.
OUTER = """
root=$1
mount -t cgroup2 none "$root/mnt" || exit 99
group="$root/mnt$(sed -n 's/^0:://p' /proc/self/cgroup)/gpupool-packages.$$"
mkdir -p "$group" || exit 99
setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child \
    --uts --ipc --net sh -c "$2" sh "$root" "$group" "$3"
find "$group" -depth -type d -exec rmdir {} +
"""
# The first process alone is in the group, or systemd could give it no controllers.
FIRST = """
echo 0 >"$2/cgroup.procs" || exit 99
exec unshare --cgroup sh -c "$3" sh "$1"
"""
INNER = """
mount --bind "$1" "$1" && cd "$1" && mount -t proc proc proc && mount -t sysfs -o ro sysfs sys &&
    mount -t cgroup2 cgroup2 sys/fs/cgroup && mount -t tmpfs -o mode=755 tmpfs dev &&
    mount -t tmpfs -o mode=755 tmpfs run || exit 99
for name in null zero full random urandom tty; do cp -a "/dev/$name" dev/; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
pivot_root . mnt || exit 99
exec env -i container=gpupool-packages PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . \
    sh -c 'umount -l /mnt; exec /sbin/init --log-target=journal'
"""


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


class Booted(roots.Root):
    def __init__(self, root, console):
        super().__init__(root.folder)
        for tool in ("setpriv", "unshare", "nsenter", "pivot_root"):
            if not shutil.which(tool):
                raise Skip(f"{tool} is not installed")
        shutil.rmtree(root.path("/etc/machine-id"), ignore_errors=True)
        self.console, self.first = console, None
        with open(console, "wb") as out:
            self.outer = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation",
                 "private", "sh", "-c", OUTER, "sh", str(root.folder), FIRST, INNER],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            self.wait_for_boot()
        except BaseException:
            self.close()
            raise

    def wait_for_boot(self):
        end = time.monotonic() + BOOT_S
        while time.monotonic() < end and self.outer.poll() is None:
            pids = [pid for child in children(self.outer.pid) for pid in children(child)]
            comm = f"/proc/{pids[0]}/comm" if pids else ""
            if comm and os.path.exists(comm):
                with open(comm, encoding="utf-8") as file:
                    self.first = pids[0] if file.read() in ("init\n", "systemd\n") else None
            if self.first and self.state("default.target") == "active":
                return
            time.sleep(0.5)
        with open(self.console, encoding="utf-8", errors="replace") as file:
            said = file.read().splitlines()
        raise Skip("no systemd runs in namespaces here" + (f": {said[-1]}" if said else ""))

    def run(self, *command, status=0, env=None):
        words = [f"{key}={value}" for key, value in roots.environment(env).items()
                 if not key.lower().endswith("_proxy")]
        return run(["nsenter", "-t", self.first, "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w",
                    "env", "-i", *words, *command], status=status)

    def state(self, unit, what="ActiveState"):
        try:
            return self.run("systemctl", "show", "-P", what, unit).strip()
        except Trouble:
            return ""

    def wait_state(self, wanted, *units):
        end = time.monotonic() + 60
        while [self.state(unit) for unit in units] != [wanted] * len(units):
            if time.monotonic() > end:
                raise Trouble(f"{units} are {[self.state(unit) for unit in units]}, "
                              f"not {wanted}")
            time.sleep(0.5)

    def close(self):
        if self.first:
            try:
                os.kill(self.first, 9)
            except ProcessLookupError:
                pass
        try:
            self.outer.wait(20)
        except subprocess.TimeoutExpired:
            self.outer.kill()
            self.outer.wait()


def dependencies(paths):
    """What the packages need of the release."""
    names = set()
    for path in paths:
        for field in run(["dpkg-deb", "-f", path, "Depends"]).split(","):
            name = re.split(r"[\s(|]", field.strip())[0]
            if name and not name.startswith("gpupool"):
                names.add(name)
    return sorted(names)


def older(path, folder, version):
    """The package as one of the version before: the same files."""
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    run(["dpkg-deb", "-R", path, tree])
    control = tree / "DEBIAN/control"
    control.write_text(control.read_text("utf-8").replace(version, f"{version}~before"), "utf-8")
    name = path.name.replace(version, f"{version}~before")
    run(["dpkg-deb", "--root-owner-group", "-b", tree, folder / name])
    shutil.rmtree(tree)
    return folder / name
