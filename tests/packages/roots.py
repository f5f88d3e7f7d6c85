# SPDX-License-Identifier: Apache-2.0
"""Roots of Debian's releases, and commands in them.

A root is made by debootstrap once and kept; tests work in copies.  A root shares this
machine's network and processes, so a client in it reaches a pool beside it.
"""

import os
import shutil
import subprocess
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INCLUDE = "python3,python3-venv,python3-pip"


class Trouble(Exception):
    """What went wrong, in words."""


class Skip(Exception):
    """What this machine lacks."""


def run(command, status=0, env=None, cwd=None, limit_s=900):
    """Run to the end; what it said.  Another exit status than @status is trouble."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, env=env, cwd=cwd, timeout=limit_s, text=True,
                              errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError as error:
        raise Skip(f"{error.filename} is not here") from error
    except subprocess.TimeoutExpired as error:
        raise Trouble(f"{' '.join(words)}: not done after {limit_s} s") from error
    if done.returncode != status:
        end = "\n".join(done.stdout.splitlines()[-12:])
        raise Trouble(f"{' '.join(words)}: status {done.returncode}\n{end}")
    return done.stdout


def environment(extra=None):
    """Of a root: nothing of this machine but the way to the network."""
    proxies = {key: value for key, value in os.environ.items()
               if key.lower().endswith("_proxy")}
    return {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive", "XDG_RUNTIME_DIR": "/opt/run", **proxies,
            **(extra or {})}


class Root:
    def __init__(self, folder):
        self.folder = folder

    def path(self, inside):
        return self.folder / inside.lstrip("/")

    def run(self, *command, status=0, env=None):
        return run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                    f"mount --rbind /proc {self.folder}/proc && "
                    f"mount --rbind /dev {self.folder}/dev && "
                    f"exec chroot {self.folder} \"$@\"", "sh", *command],
                   status=status, env=environment(env))


def remove(folder):
    """A root or a copy of one, which nothing of this machine is mounted in."""
    mounts = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    for line in mounts:
        place = line.split()[4]
        if place == str(folder) or place.startswith(f"{folder}/"):
            raise Trouble(f"{place} is mounted: unmount it, and nothing is removed before")
    shutil.rmtree(folder, ignore_errors=True)


def debootstrap(folder, *words):
    """In a mount namespace of its own, which ends with it: it mounts /proc in the root,
    and leaves it there when it is killed."""
    remove(folder)
    try:
        run(["unshare", "--mount", "--propagation", "private", "debootstrap",
             "--variant=minbase", *words, folder], limit_s=3600)
    except Trouble as trouble:
        why = [line for line in str(trouble).splitlines() if line.startswith(("E:", "W:"))]
        raise Skip(f"no root by debootstrap: {(why or str(trouble).splitlines())[-1]}") from trouble


def needs_root():
    if os.geteuid() != 0:
        raise Skip("needs root")
    for tool in ("debootstrap", "unshare", "chroot"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")


def pristine(work, release):
    needs_root()
    folder = work / f"root-{release}"
    if not (folder / "made").exists():
        debootstrap(folder, f"--include={INCLUDE}", release)
        shutil.rmtree(folder / "var/cache/apt/archives", ignore_errors=True)
        (folder / "made").touch()
    return folder


def fresh(work, release, use="used"):
    """A copy of the release's root, which the caller may spoil."""
    folder = work / f"{use}-{release}"
    remove(folder)
    run(["cp", "-a", "--reflink=auto", pristine(work, release), folder])
    (folder / "var/cache/apt/archives/partial").mkdir(parents=True, exist_ok=True)
    return Root(folder)


def unpacked(work, release, architecture):
    """A root of another architecture whose packages are unpacked and not configured."""
    needs_root()
    folder = work / f"root-{release}-{architecture}"
    if not (folder / "made").exists():
        debootstrap(folder, "--foreign", f"--arch={architecture}", "--include=python3", release)
        for package in sorted((folder / "var/cache/apt/archives").glob("*.deb")):
            run(["dpkg-deb", "--extract", package, folder])
        shutil.rmtree(folder / "var/cache/apt/archives", ignore_errors=True)
        (folder / "made").touch()
    return Root(folder)


def without_libc(work):
    """A root whose programs need no C library: what a musl system looks like to ours."""
    needs_root()
    busybox = shutil.which("busybox")
    if not busybox:
        raise Skip("busybox-static is not installed")
    folder = work / "root-without-libc"
    remove(folder)
    for name in ("bin", "proc", "dev", "opt"):
        (folder / name).mkdir(parents=True)
    shutil.copy2(busybox, folder / "bin/busybox")
    for name in ("sh", "readlink", "uname", "ls"):
        (folder / "bin" / name).symlink_to("busybox")
    return Root(folder)
