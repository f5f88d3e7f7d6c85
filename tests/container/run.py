#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-container`: the recipe of the images, carried out without a container engine.

Reads deploy/container/Containerfile and does what it says, instruction by instruction,
in roots made by debootstrap: FROM copies a root, RUN runs in it (chroot), COPY copies.
Then a pool is started from the images' own files: the scheduler of one, the server of
another with a software card, and a program through the third.

Needs root, debootstrap and Debian's packages from the network; half an hour on two
cores, most of it packages and the build.  ENTRYPOINT, EXPOSE and VOLUME are read, not
isolated: the roots share this machine's network and processes.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "deploy" / "container" / "Containerfile"
BASES = {"debian:12-slim": "bookworm"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOKEN = "token-of-the-test"
LIMIT_S = 20


class Trouble(Exception):
    """What went wrong, in words."""


def instructions(text):
    """(word, rest) of every instruction; lines that end in a backslash go on."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", text))
    for line in text.splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def run(command, **options):
    done = subprocess.run([str(word) for word in command], check=False, text=True,
                          errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        end = "\n".join(done.stdout.splitlines()[-20:])
        raise Trouble(f"{shlex.join(str(w) for w in command)}: {done.returncode}\n{end}")
    return done.stdout


def environment():
    """Of a root: nothing of this machine but the way to the network."""
    proxies = {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
    return {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **proxies}


class Image:
    """One stage: a root, and what its instructions made of it."""

    def __init__(self, folder):
        self.folder, self.workdir, self.entry = folder, "/", []

    def path(self, inside):
        return self.folder / inside.lstrip("/")

    def chroot(self, command):
        """`command` in the root, as arguments for subprocess."""
        place = f"cd {shlex.quote(self.workdir)} && exec \"$@\""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                f"mount --rbind /proc {self.folder}/proc && "
                f"mount --rbind /dev {self.folder}/dev && "
                f"exec chroot {self.folder} sh -c {shlex.quote(place)} sh \"$@\"",
                "sh", *command]

    def run(self, command):
        return run(self.chroot(["sh", "-c", command]), env=environment())

    def start(self, *arguments, log):
        """The image's entry point, in the background."""
        return subprocess.Popen(self.chroot([*self.entry, *arguments]), env=environment(),
                                stdout=log, stderr=log, start_new_session=True)


def copy(sources, target, image):
    """COPY: of folders what is in them, of files the files."""
    into = image.path(target if target.startswith("/") else f"{image.workdir}/{target}")
    many = target.endswith("/") or any(not path.is_dir() for path in sources)
    into.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, into, symlinks=True, dirs_exist_ok=True)
        elif many:
            shutil.copy2(source, into)


def tree(work):
    """The files of the project without what was built: what a clean checkout has."""
    out = work / "context"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    names = run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"]).splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, out / name)
    return out


def base(work, name):
    """A root of the release that the image's name stands for; made once."""
    if name == "scratch":
        folder = work / "base-scratch"
        folder.mkdir(exist_ok=True)
        return folder
    if name not in BASES:
        raise Trouble(f"nothing here stands for the image {name}")
    folder = work / f"base-{BASES[name]}"
    if not (folder / "etc/debian_version").exists():
        shutil.rmtree(folder, ignore_errors=True)
        run(["debootstrap", "--variant=minbase", BASES[name], folder])
    return folder


def build(work):
    """Every stage of the recipe, by its name."""
    images, image, context = {}, None, tree(work)
    for word, rest in instructions(RECIPE.read_text("utf-8")):
        print(f"{word} {rest}", flush=True)
        if word == "FROM":
            name, _, stage = rest.partition(" AS ")
            image = images[stage] = Image(work / f"image-{stage}")
            shutil.rmtree(image.folder, ignore_errors=True)
            run(["cp", "-a", base(work, name), image.folder])
        elif word == "RUN":
            image.run(rest)
        elif word == "WORKDIR":
            image.workdir = rest
            image.path(rest).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            words = rest.split()
            stage = words.pop(0).partition("=")[2] if words[0].startswith("--from") else ""
            root = images[stage].folder if stage else context
            copy([root / w.lstrip("/") for w in words[:-1]], words[-1], image)
        elif word == "ENTRYPOINT":
            image.entry = [w.strip(' "') for w in rest.strip("[]").split(",")]
        elif word == "VOLUME":
            image.path(rest).mkdir(parents=True, exist_ok=True)
        elif word != "EXPOSE":
            raise Trouble(f"no idea what {word} means")
    return images


def wait_for(what, command, image):
    end = time.monotonic() + LIMIT_S
    while True:
        try:
            return image.run(command)
        except Trouble as trouble:
            if time.monotonic() > end:
                raise Trouble(f"{what}: {trouble}") from None
            time.sleep(0.1)


def use(images, program, work):
    """A pool of the images, and a program through it."""
    client, ports = images["client"], (17480, 17481)
    for image in images.values():
        image.workdir = "/"
    for image in (images[name] for name in ("client", "server", "scheduler")):
        image.path("/etc/pool-token").write_text(TOKEN + "\n", "utf-8")
        image.path("/etc/pool-token").chmod(0o600)
    shutil.copy2(program, client.path("/usr/bin/program"))
    scheduler = f"127.0.0.1:{ports[0]}"
    running = []
    with open(work / "daemons.log", "wb") as log:
        try:
            running.append(images["scheduler"].start(
                "--listen", scheduler, "--server-token-file", "/etc/pool-token",
                "--allow-anonymous", "client", log=log))
            running.append(images["server"].start(
                "--listen", f"127.0.0.1:{ports[1]}", "--advertise",
                f"127.0.0.1:{ports[1]}", "--scheduler", scheduler,
                "--token-file", "/etc/pool-token", "--driver", "softgpu", log=log))
            gpupool = f"GPUPOOL_SCHEDULER={scheduler} {client.entry[0]}"
            wait_for("no card shows", f"{gpupool} status | grep -q SoftGPU", client)
            out = client.run(f"{gpupool} run --core 30 --memory 64MiB -- /usr/bin/program")
            if ": ok" not in out:
                raise Trouble(f"the program says {out!r}")
            print(out, end="")
        finally:
            for process in running:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    args = parser.parse_args()
    work = (args.build / "container").resolve()
    work.mkdir(parents=True, exist_ok=True)
    for tool in ("debootstrap", "unshare", "chroot"):
        if not shutil.which(tool) or os.geteuid() != 0:
            print(f"SKIP: needs root and {tool}")
            return 0
    try:
        use(build(work), args.build.resolve() / "tests/programs/vecadd", work)
    except Trouble as trouble:
        print(f"FAIL: {trouble}")
        return 1
    print("PASS: every instruction carried out; a program ran through the three images")
    return 0


if __name__ == "__main__":
    sys.exit(main())
