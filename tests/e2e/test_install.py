# SPDX-License-Identifier: Apache-2.0
"""An installed tree works wherever it is unpacked."""

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
