#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-packages`: what users install, installed where they would.

Debian packages, the wheel and the client's tarball, in roots of old and new releases that
debootstrap makes (kept in BUILD/packages).  The client of an installation computes on a
software card of a pool beside the root, over TLS.  What cannot be had is skipped by name;
one line PASS, FAIL or SKIP for each check, then `N passed, N failed, N skipped`.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import life  # noqa: E402
import limits  # noqa: E402
import roots  # noqa: E402
from chosen import end_if_none, matches  # noqa: E402
from roots import Skip, Trouble, run  # noqa: E402

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
GLIBC = "2.28"
# The oldest and the newest that Debian's mirrors have, and those between.
RELEASES = ("bullseye", "bookworm", "trixie", "sid")
# Their libraries have the names that the packages ask for.
PACKAGED = ("bookworm", "trixie")
PROGRAM = "/opt/slice_program.py"
_checks = []


def check(name, *args):
    def add(function):
        _checks.append((name, function, args))
        return function
    return add


def has(text, words, what):
    if words not in text:
        raise Trouble(f"{what}: {words!r} is not in what it says: {text[-600:]!r}")


def one(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise Trouble(f"{len(found)} files {pattern} in {folder}")
    return found[0]


class Setup:
    """Where everything is, and the pool that clients in roots reach."""

    def __init__(self, build, version):
        self.build, self.version = build, version
        self.work = build / "packages"
        self.work.mkdir(parents=True, exist_ok=True)
        self.machine = os.uname().machine
        self.home = tempfile.TemporaryDirectory(prefix="gpupool-packages.")
        self.pool = None
        self.used = {}

    def gpupool(self, *words):
        env = {key: value for key, value in os.environ.items()
               if not key.startswith(("GPUPOOL_", "SOFTGPU_"))}
        return run([self.build / "bin/gpupool", *words],
                   env={**env, "XDG_RUNTIME_DIR": self.home.name})

    def client_env(self, root=None):
        """Of a client of the pool: its scheduler, its token, and TLS or nothing."""
        if not self.pool:
            said = self.gpupool("up", "--servers", 1, "--cards", 1)
            self.pool = re.search(r"scheduler (\S+),", said)[1]
        token = Path(self.home.name) / "gpupool/pool.d/client-token"
        if root:
            shutil.copy2(token, root.path("/opt/token"))
            token = "/opt/token"
        return {"GPUPOOL_SCHEDULER": self.pool, "GPUPOOL_TOKEN_FILE": str(token),
                "GPUPOOL_TLS": "require", "GPUPOOL_TRANSPORT": "tcp"}

    def root(self, release):
        if release not in self.used:
            root = roots.fresh(self.work, release)
            shutil.copy2(HERE / "slice_program.py", root.path(PROGRAM))
            self.used[release] = root
        return self.used[release]

    def tarball(self, machine=None):
        name = f"gpupool-client-{self.version}-linux-{machine or self.machine}"
        folder = self.build if not machine else self.build.with_name(f"{self.build.name}-{machine}")
        return name, folder / f"{name}.tar.gz"

    def unpack(self, root, machine=None):
        """The tarball in a root, under another name; the folder as the root sees it."""
        name, tarball = self.tarball(machine)
        target = root.path("/opt/some where")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        run(["tar", "-xzf", tarball, "-C", target, "--strip-components=1"])
        if not (target / "bin/gpupool").exists():
            raise Trouble(f"{tarball} has no {name}/bin/gpupool")
        return "/opt/some where"

    def wheel(self):
        return one(self.build / "wheel", f"gpupool-{self.version}-py3-none-*.whl")

    def close(self):
        if self.pool:
            self.gpupool("down", "--force")
        self.home.cleanup()
        for root in self.used.values():
            roots.remove(root.folder)


def uses_a_card(root, gpupool, python, env):
    out = root.run(*gpupool, "run", "--core", "20", "--memory", "64MiB", "--", *python,
                   PROGRAM, env=env)
    has(out, "slice ok: driver", "the program on a slice")


# ---- the client's own files

@check("client.needs_glibc_2_28_and_nothing_else")
def symbols(setup):
    tool = TOP / "deploy/portable/symbols.py"
    name = setup.tarball()[0]
    tree = setup.build / "client" / name
    run([tool, "--glibc", GLIBC, tree / "libexec/gpupool", *tree.glob("lib/gpupool/*.so.1")])
    out = run([tool, "--glibc", "2.17", tree / "libexec/gpupool"], status=1)
    has(out, "glibc 2.17 is to be enough", "the tool, asked for less")
    out = run([tool, "--glibc", GLIBC, setup.build / "bin/gpupool"], status=1)
    has(out, "needs libjansson.so.4, which is not part of the C library", "the tool")


@check("wheel.platform_is_what_auditwheel_finds")
def auditwheel(setup):
    folder = setup.work / "auditwheel"
    if not (folder / "bin/auditwheel").exists():
        run([sys.executable, "-m", "venv", folder])
        try:
            run([folder / "bin/pip", "install", "--quiet", "auditwheel"])
        except Trouble as trouble:
            raise Skip("auditwheel cannot be installed from PyPI") from trouble
    out = " ".join(run([folder / "bin/auditwheel", "show", setup.wheel()]).split())
    tag = re.search(r'consistent with the following platform tag: "manylinux_2_(\d+)_', out)
    if not tag or int(tag[1]) > int(GLIBC.split(".")[1]):
        raise Trouble(f"auditwheel says {out!r}")


@check("wheel.source_archive_says_why_no_wheel_fits")
def source_archive(setup):
    archive = setup.build / "wheel" / f"gpupool-{setup.version}.tar.gz"
    folder = setup.work / "source-venv"
    run([sys.executable, "-m", "venv", folder])
    out = run([folder / "bin/pip", "install", "--no-index", archive], status=1)
    has(out, "no wheel for this machine was found; make one", "pip")
    with tempfile.TemporaryDirectory() as work:
        run(["tar", "-xzf", archive, "-C", work, "--strip-components=1"])
        for words, patch in (
                ("this system has glibc 2.17, and gpupool needs 2.28 or newer",
                 'machine.libc = lambda: ("glibc", (2, 17))'),
                ("runs with another C library than GNU's (musl?)",
                 'machine.os.confstr = lambda name: ""'),
                ("and the machine is riscv64",
                 'machine.platform.machine = lambda: "riscv64"')):
            out = run([sys.executable, "-c", f"import machine, refuse\n{patch}\n"
                       "refuse.build_wheel('.')"], status=1, cwd=work)
            has(out, words, "the source archive")


@check("tarball.says_what_a_machine_lacks")
def launcher(setup):
    root = roots.without_libc(setup.work)
    there = setup.unpack(root)
    out = root.run("/bin/sh", f"{there}/bin/gpupool", "--version", status=1)
    has(out, "this system has no GNU C library", "without a C library")
    with tempfile.TemporaryDirectory() as work:
        run(["tar", "-xzf", setup.tarball()[1], "-C", work, "--strip-components=1"])
        program, tools = Path(work) / "bin/gpupool", Path(work) / "tools"
        tools.mkdir()
        for tool, answer, words in (
                ("getconf", "glibc 2.17", "this system has glibc 2.17, and gpupool needs 2.28"),
                ("getconf", "glibc 2.27.9000", "this system has glibc 2.27.9000"),
                ("uname", "riscv64", f"is the client for {setup.machine}, and the machine is")):
            (tools / tool).write_text(f"#!/bin/sh\necho {answer}\n")
            (tools / tool).chmod(0o755)
            env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
            has(run([program, "--version"], status=1, env=env), words, answer)
            (tools / tool).unlink()
        has(run([program, "--version"]), f"gpupool {setup.version}", "with nothing lacking")
        (Path(work) / "libexec/gpupool").unlink()
        has(run([program, "--version"], status=1), "unpack the whole archive", "half of it")


def tarball_in(setup, release):
    root = setup.root(release)
    there = setup.unpack(root)
    gpupool = [f"{there}/bin/gpupool"]
    has(root.run(*gpupool, "--version"), f"gpupool {setup.version}", "--version")
    uses_a_card(root, gpupool, ["python3"], setup.client_env(root))
    out = root.run(*gpupool, "run", "--core", "20", "--memory", "64MiB", "--", "sh", "-c",
                   "exec nvidia-smi -L", env=setup.client_env(root))
    has(out, "GPU 0: ", "nvidia-smi of the session")
    out = root.run(*gpupool, "up", status=1, env={"XDG_RUNTIME_DIR": "/opt/alone"})
    has(out, "install gpupool-scheduler", "up without a scheduler")


def wheel_in(setup, release):
    root = setup.root(release)
    shutil.copy2(setup.wheel(), root.path("/opt"))
    shutil.rmtree(root.path("/opt/venv"), ignore_errors=True)
    root.run("python3", "-m", "venv", "/opt/venv")
    root.run("/opt/venv/bin/pip", "install", "--no-index", f"/opt/{setup.wheel().name}")
    env = setup.client_env(root)
    has(root.run("/opt/venv/bin/gpupool", "--version"), f"gpupool {setup.version}", "gpupool")
    has(root.run("/opt/venv/bin/python", "-c", "import gpupool; print(gpupool.__version__)"),
        setup.version, "its version for Python")
    uses_a_card(root, ["/opt/venv/bin/gpupool"], ["/opt/venv/bin/python"], env)
    uses_a_card(root, ["/opt/venv/bin/python", "-m", "gpupool"], ["python3"], env)
    out = root.run("/opt/venv/bin/gpupool", "run", "--core", "20", "--memory", "64MiB", "--",
                   "nvidia-smi", "-L", env=env)
    has(out, "GPU 0: ", "nvidia-smi of the session")
    root.run("/opt/venv/bin/pip", "uninstall", "--yes", "gpupool")
    left = [str(path) for path in root.path("/opt/venv").rglob("*gpupool*")]
    if left:
        raise Trouble(f"pip uninstall leaves {left}")


for _release in RELEASES:
    check(f"tarball.runs_in_{_release}", _release)(tarball_in)
    check(f"wheel.runs_in_{_release}", _release)(wheel_in)


# ---- Debian packages

DEBS = ("gpupool", "gpupool-client", "gpupool-common", "gpupool-kube", "gpupool-scheduler",
        "gpupool-server")


def debs(setup):
    return [one(setup.build / "deb", f"{name}_{setup.version}_*.deb") for name in DEBS]


@check("deb.lintian_finds_nothing")
def lintian(setup):
    out = run(["lintian", "--fail-on", "error,warning", "--allow-root", *debs(setup)])
    found = [line for line in out.splitlines() if re.match(r"[EWI]:", line)]
    if found:
        raise Trouble("\n".join(found))


LINK_RE = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)|(?:src|srcset|href)=\"([^\"#]+)\"")


@check("deb.links_of_documents_lead_to_files")
def links(setup):
    with tempfile.TemporaryDirectory() as folder:
        for path in debs(setup):
            run(["dpkg-deb", "-x", path, folder])
        documents = sorted((Path(folder) / "usr/share/doc").rglob("*.md"))
        names = {str(path.relative_to(Path(folder) / "usr/share/doc")) for path in documents}
        for name in ("gpupool-server/README.md", "gpupool-scheduler/README.md",
                     "gpupool-common/docs/security.md"):
            if name not in names:
                raise Trouble(f"/usr/share/doc/{name} is not there: {sorted(names)}")
        for path in documents:
            for pair in LINK_RE.findall(path.read_text("utf-8")):
                target = pair[0] or pair[1]
                if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                    raise Trouble(f"{path.relative_to(folder)} leads to {target}, which is not there")


def settings_of(name):
    """The file that the unit reads, which the package asks for."""
    unit = (TOP / f"deploy/systemd/gpupool-{name}.service").read_text("utf-8")
    return re.search(r"(?m)^EnvironmentFile=-?(.*)$", unit)[1]


def installed_paths(root):
    out = root.run("sh", "-c", "find / -xdev -path /proc -prune -o -path /dev -prune -o "
                   "-path '*gpupool*' -print")
    return sorted(line for line in out.splitlines() if not line.startswith("/opt"))


def apt(root, *words, status=0):
    return root.run("apt-get", "-q", "-y", "--no-install-recommends", *words, status=status)


def deb_in(setup, release):
    root = setup.root(release)
    for path in debs(setup):
        shutil.copy2(path, root.path("/opt"))
    apt(root, "update")
    said = apt(root, "install", *(f"/opt/{path.name}" for path in debs(setup)))
    for name in ("server", "scheduler"):
        has(said, f"gpupool-{name}: enabled, but not started: there is no "
            f"{settings_of(name)}.", "the installation")
        dropin = f"/lib/systemd/system/gpupool-{name}.service.d/configured.conf"
        has(root.path(dropin).read_text(), f"ConditionPathExists={settings_of(name)}\n", dropin)
        wanted = f"/etc/systemd/system/multi-user.target.wants/gpupool-{name}.service"
        if not root.path(wanted).is_symlink():
            raise Trouble(f"gpupool-{name}.service is not enabled")
    try:
        root.run("gpupool", "up", "--servers", "1", "--cards", "1")
        uses_a_card(root, ["gpupool"], ["python3"], {"GPUPOOL_TLS": "require",
                                                     "GPUPOOL_TRANSPORT": "tcp"})
    finally:
        root.run("gpupool", "down", "--force")
    bad_settings(root)
    apt(root, "purge", "gpupool*")
    settings = Path(settings_of("server"))
    left, wanted = installed_paths(root), {"/etc/gpupool/server-token", str(settings)}
    wanted |= {str(path) for path in settings.parents if path != Path("/etc")} - {"/"}
    if set(left) != wanted:
        raise Trouble(f"purged, and there is still {left}")


def bad_settings(root):
    """What an administrator gets wrong, said when a package is configured."""
    again = ("dpkg-reconfigure", "gpupool-server")
    root.path("/etc/gpupool").write_text("")
    has(root.run(*again, status=1), "/etc/gpupool is a file, and the settings belong",
        "a file in the folder's place")
    root.path("/etc/gpupool").unlink()
    settings = root.path(settings_of("server"))
    settings.parent.mkdir(parents=True)
    settings.write_text("# mine\n--scheduler here\n")
    root.path("/etc/gpupool/server-token").write_text("")
    root.path("/etc/gpupool/server-token").chmod(0o644)
    said = root.run(*again)
    has(said, "server.env: not NAME=VALUE, systemd will ignore it: line 2:--scheduler here",
        "a wrong line")
    has(said, "sets nothing for gpupool-server", "no setting")
    has(said, "server-token is empty", "an empty token")
    has(said, "can be read by everybody: chmod o= ", "an open token")
    settings.write_text("GPUPOOL_SERVER_FLAGS=--driver cuda\n")
    root.path("/etc/gpupool/server-token").write_text("secret\n")
    root.path("/etc/gpupool/server-token").chmod(0o600)
    said = root.run(*again)
    if "gpupool-server:" in said:
        raise Trouble(f"good settings, and it says {said!r}")


def deb_lives_in(setup, release):
    life.live(setup.work, release, setup.version,
              [path for path in debs(setup) if not path.name.startswith(("gpupool_",
                                                                         "gpupool-kube"))])


def deb_keeps_limits_in(setup, release):
    limits.keep(setup.work, release, TOP,
                [path for path in debs(setup) if not path.name.startswith(("gpupool_",
                                                                           "gpupool-kube"))])


for _release in PACKAGED:
    check(f"deb.installs_runs_and_purges_in_{_release}", _release)(deb_in)
    check(f"deb.upgrades_and_stays_stopped_under_systemd_in_{_release}", _release)(deb_lives_in)
    check(f"deb.limits_of_sessions_outlive_servers_in_{_release}", _release)(deb_keeps_limits_in)


# ---- 64-bit ARM

@check("aarch64.tarball_runs_in_bullseye")
def arm(setup):
    emulator = shutil.which("qemu-aarch64-static")
    if not emulator or not shutil.which("aarch64-linux-gnu-gcc"):
        raise Skip("qemu-user-static and gcc-aarch64-linux-gnu are not installed")
    out = run([TOP / "tests/aarch64/cross.sh", setup.build, "client-tarball-built",
               "wheel-built"], limit_s=3600)
    if out.startswith("SKIP"):
        raise Skip(out.strip())
    root = roots.unpacked(setup.work, "bullseye", "arm64")
    there = setup.unpack(root, "aarch64")
    shutil.copy2(emulator, root.path("/opt/qemu"))
    shutil.copy2(HERE / "slice_program.py", root.path(PROGRAM))
    # Processes that gpupool starts are not emulated by themselves.
    gpupool = ["/opt/qemu", f"{there}/libexec/gpupool"]
    env = {**setup.client_env(root), "QEMU_RESERVED_VA": "0x8000000000"}
    has(root.run(*gpupool, "--version"), f"gpupool {setup.version}", "--version")
    uses_a_card(root, gpupool, ["/opt/qemu", "/usr/bin/python3"], env)
    out = run(["sh", root.path(f"{there}/bin/gpupool"), "--version"], status=1)
    has(out, f"this is the client for aarch64, and the machine is {setup.machine}", "it, here")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--only", default="", help="checks whose name matches")
    args = parser.parse_args()
    some = [check for check in _checks if matches(check[0], args.only)]
    end_if_none(some, args.only, [name for name, _, _ in _checks])
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    setup = Setup(args.build.resolve(), args.version)
    try:
        for name, function, words in some:
            outcome, why = "PASS", ""
            try:
                function(setup, *words)
            except Exception as error:  # a check that dies has failed, and the others go on
                outcome = "SKIP" if isinstance(error, Skip) else "FAIL"
                why = f": {error}" if isinstance(error, (Skip, Trouble)) else f": {error!r}"
            counts[outcome] += 1
            print(f"{outcome} {name}{why}", flush=True)
    finally:
        setup.close()
    print("{PASS} passed, {FAIL} failed, {SKIP} skipped".format(**counts))
    sys.exit(1 if counts["FAIL"] else 0)


if __name__ == "__main__":
    main()
