# SPDX-License-Identifier: Apache-2.0
"""What leaves the build folder for other machines: the tarball, and the recipe of images."""

MAKE = ("make", "--no-print-directory", "-o", "all")


def test_tarball_runs_wherever_it_is_unpacked(case):
    """In a folder of another name, by tar alone; nothing but its files is used."""
    out = case.folder / "out"
    out.mkdir()
    for part in ("bin", "lib"):
        (out / part).symlink_to(case.build / part)
    case.run([*MAKE, f"O={out}", "dist"], cwd=case.data.parents[1])
    (tarball,) = out.glob("gpupool-*.tar.gz")
    there = case.folder / "some where else"
    there.mkdir()
    case.run(["tar", "-xzf", tarball, "-C", there, "--strip-components=1"])
    for name in ("LICENSE", "README.md", "deploy/container/Containerfile"):
        case.check((there / name).is_file(), f"{name} is in the tarball")
    env = {"PATH": f"{there}/usr/bin:/usr/bin:/bin"}
    gpupool = there / "usr/bin/gpupool"
    try:
        case.run([gpupool, "up"], env=env)
        done = case.run([gpupool, "run", "--core", 30, "--memory", "64MiB", "--",
                         case.programs / "vecadd"], env=env)
        case.contains(done.out, ": ok\n", "vecadd")
    finally:
        case.run([gpupool, "down"], env=env, status=None)


def packages_of(case, *files):
    """The Debian packages that have the libraries these are linked with."""
    needed = set()
    for file in files:
        for line in case.run(["readelf", "-d", file]).out.splitlines():
            if "(NEEDED)" in line:
                needed.add(line.split("[")[1].rstrip("]"))
    owners = case.run(["dpkg", "-S", *(f"*/{name}" for name in sorted(needed))]).out
    return {package for line in owners.splitlines()
            if not (package := line.split(":")[0]).startswith("libc6")}


def test_container_images_install_what_their_programs_need(case):
    """The C library is there anyway."""
    case.need_tool("dpkg")
    if case.sanitizer:
        case.skip("programs with a sanitizer need its library")
    text = (case.data.parents[1] / "deploy/container/Containerfile").read_text("utf-8")
    for image, names in (("client", ("gpupool",)), ("scheduler", ("gpupool-scheduler",)),
                         ("server", ("gpupool-server", "gpupool-worker"))):
        part = text.split(f" AS {image}\n")[1].split("\nFROM ")[0]
        need = packages_of(case, *(case.build / "bin" / name for name in names))
        case.equal(sorted(need - set(part.split()) - {"libgcc-s1"}), [],
                   f"packages that the {image} image lacks")
