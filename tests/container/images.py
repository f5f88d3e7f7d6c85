#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-images`: every image of the Containerfile, built by buildah, and its program.

Nothing is pulled: the base image is made of a root by debootstrap and tagged with the
name that the Containerfile uses.  Each image's entry point must show its help, which needs
every library that it is linked with; kube-client, which has no shell and no libraries,
copies its files as the webhook's init container does.

Needs root, buildah, debootstrap and Debian's packages from the network; twenty minutes on
two cores.  --storage keeps layers between two runs.
"""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import BASES, RECIPE, Trouble, base, run, tree  # noqa: E402

HELP = {"client": ["/usr/bin/gpupool", "--help"],
        "server": ["/usr/bin/gpupool-server", "--help"],
        "scheduler": ["/usr/bin/gpupool-scheduler", "--help"],
        "kube": ["/usr/bin/gpupool-kube", "controller", "--help"]}
COPIED = ("libcuda.so.1", "libnvidia-ml.so.1")


class Engine:
    def __init__(self, storage):
        self.words = ["buildah", "--root", storage, "--runroot", f"{storage}-run",
                      "--storage-driver", "vfs"]

    def __call__(self, *words):
        return run([*self.words, *words]).strip()

    def import_base(self, work, name):
        """An image of a root, under the name by which a registry would have it."""
        full = f"docker.io/library/{name}"
        if full in self("images", "--format", "{{.Name}}:{{.Tag}}").splitlines():
            return
        archive = work / "base.tar"
        run(["tar", "-C", base(work, name), "-cf", archive, "."])
        container = self("from", "--isolation", "chroot", "scratch")
        self("add", container, archive, "/")
        self("commit", "-q", container, full)
        self("rm", container)
        archive.unlink()

    def build(self, target, context):
        self("build", "--isolation", "chroot", "--pull-never", "--layers", "--target", target,
             "-t", f"localhost/gpupool-{target}:test", "-f", RECIPE, context)

    def run(self, target, *command, volume=None):
        container = self("from", "--pull-never", "--isolation", "chroot",
                         f"localhost/gpupool-{target}:test")
        try:
            extra = ["-v", volume] if volume else []
            return self("run", "--isolation", "chroot", *extra, container, "--", *command)
        finally:
            self("rm", container)


def check(engine, target, work):
    if target in HELP:
        said = engine.run(target, *HELP[target])
        if "Usage: " not in said:
            raise Trouble(f"{target}: {' '.join(HELP[target])} says {said!r}")
        return
    into = work / "copied"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    engine.run(target, "/gpupool-copy", "/target", volume=f"{into}:/target")
    missing = [name for name in COPIED if not (into / name).is_file()]
    if missing:
        raise Trouble(f"{target}: {missing} were not copied")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--storage", type=Path)
    parser.add_argument("--context", type=Path, help="instead of this checkout")
    args = parser.parse_args()
    for tool in ("buildah", "debootstrap"):
        if not shutil.which(tool) or os.geteuid() != 0:
            print(f"SKIP: needs root and {tool}")
            return 0
    work = (args.build / "container").resolve()
    work.mkdir(parents=True, exist_ok=True)
    engine = Engine((args.storage or work / "storage").resolve())
    targets = re.findall(r"(?m)^FROM \S+ AS (\S+)", RECIPE.read_text("utf-8"))
    try:
        for name in BASES:
            engine.import_base(work, name)
        context = args.context or tree(work)
        for target in targets[1:]:  # the first one is the build
            engine.build(target, context)
            check(engine, target, work)
            print(f"PASS {target}", flush=True)
    except Trouble as trouble:
        print(f"FAIL: {trouble}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
