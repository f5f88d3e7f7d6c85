# SPDX-License-Identifier: Apache-2.0
"""A root of another release of Debian, for programs that are built for a card there and not
here (contrib).  It is made by debootstrap once and kept in BUILD/suites; a program in it
finds the session and the client library where they are outside."""

import os
import shutil
from pathlib import Path

from suite import Missing, mirror, quiet

ENTER = Path(__file__).resolve().parent / "enter_root.sh"
SOURCES = "deb {mirror} {release} main contrib non-free\n"


class DebianRoot:
    """@release with @packages, and what packages recommend left out.  @unpacked is got
    without what it depends on, and without its scripts."""

    def __init__(self, build, release, packages, unpacked=()):
        if os.geteuid() != 0:
            raise Missing("it needs root, for a root of another release of Debian")
        for tool in ("debootstrap", "unshare", "chroot"):
            if not shutil.which(tool):
                raise Missing(f"{tool} is not installed")
        self.build = build
        self.folder = build / "suites" / f"root-{release}"
        if not (self.folder / "made").exists():
            self._make(release)
        self._install([name for name in packages if not self._has(name)], unpacked)

    def _make(self, release):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        quiet(["unshare", "--mount", "--propagation", "private", "debootstrap",
               "--variant=minbase", release, self.folder, mirror()], self.build,
              f"no root of {release}")
        (self.folder / "etc/apt/sources.list").write_text(
            SOURCES.format(mirror=mirror(), release=release))
        (self.folder / "made").touch()

    def _has(self, name):
        return (self.folder / "installed" / name).exists()

    def _install(self, packages, unpacked):
        apt = ["apt-get", "-q", "-o", "Acquire::Check-Valid-Until=false", "-o",
               "APT::Sandbox::User=root"]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
        done = self.folder / "installed"
        done.mkdir(exist_ok=True)
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        lacks = [name for name in unpacked if not self._has(name)]
        if packages or lacks:
            quiet(self.command(*apt, "update"), self.build, "no lists of packages", env)
        if packages:
            quiet(self.command(*apt, "install", "-y", "--no-install-recommends", *packages),
                  self.build, f"{' '.join(packages)} cannot be installed", env)
        for name in lacks:
            quiet(self.command("sh", "-c", 'rm -rf /fetched && mkdir /fetched && cd /fetched && '
                               '"$@" && dpkg-deb -x *.deb / && rm -rf /fetched', "sh",
                               *apt, "download", name), self.build, f"{name} cannot be had", env)
        for name in (*packages, *lacks):
            (done / name).touch()

    def command(self, *words):
        """A command line that runs @words in the root."""
        return [ENTER, self.folder, self.build, *words]
