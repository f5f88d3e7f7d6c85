# SPDX-License-Identifier: Apache-2.0
"""Images that a software card cannot run: refused with the fix in words."""

import struct

from harness.images import cubin, fatbin


def load(case, image, pool=None):
    """(CUresult, stderr) of loading @image on a remote software card."""
    path = case.folder / "image"
    path.write_bytes(image)
    commands = case.folder / "commands"
    commands.write_text(f"init\ndevice 0\ncontext\nload {path}\n")
    pool = pool or case.pool()
    with open(commands, encoding="utf-8") as stdin:
        done = pool.run(case.programs / "cudash", stdin=stdin)
    return int(done.out.split("\n")[3]), done.err, pool


def test_machine_code_only_gives_no_binary_and_says_what_to_do(case):
    result, err, pool = load(case, fatbin((2, 75, cubin())))
    case.equal(result, 209, "CUresult of the load (CUDA_ERROR_NO_BINARY_FOR_GPU)")
    case.equal(len([line for line in err.splitlines() if "PTX" in line]), 1,
               f"lines that say what is wrong with the image: {err}")
    case.contains(pool.log(), "PTX", "and the server's log")


def test_bare_cubin_gives_no_binary(case):
    result, err, pool = load(case, cubin(90))
    case.equal(result, 209, "CUresult of the load (CUDA_ERROR_NO_BINARY_FOR_GPU)")
    case.equal(len([line for line in err.splitlines() if "PTX" in line]), 1,
               f"lines that say what is wrong with the image: {err}")
    case.contains(pool.log(), "PTX", "and the server's log")


def test_a_hundred_images_without_ptx_are_said_once(case):
    path = case.folder / "image"
    path.write_bytes(cubin(90))
    commands = case.folder / "commands"
    commands.write_text("init\ndevice 0\ncontext\n" + f"load {path}\n" * 100)
    with open(commands, encoding="utf-8") as stdin:
        done = case.pool().run(case.programs / "cudash", stdin=stdin)
    case.equal(done.out.split("\n")[3:103], ["209"] * 100, "CUresults of the loads")
    case.equal(len([line for line in done.err.splitlines() if "PTX" in line]), 1,
               f"lines that say so: {done.err}")


def test_fat_binary_with_ptx_beside_machine_code_loads(case):
    ptx = (case.build / "tests" / "ptx" / "vecadd.ptx").read_bytes() + b"\0"
    result, _, _ = load(case, fatbin((2, 75, cubin()), (1, 70, ptx)))
    case.equal(result, 0, "CUresult of the load")


def test_broken_images_fail_and_the_next_one_loads(case):
    pool = case.pool()
    good = (case.build / "tests" / "ptx" / "vecadd.ptx").read_bytes()
    for words, image in (("text that is no PTX", b".version 7.0\n.target sm_70\nnonsense!"),
                         ("a fat binary cut off", fatbin((2, 75, cubin()))[:40]),
                         ("a size beyond the end", fatbin((1, 70, good))[:-8]
                          .replace(struct.pack("<Q", len(good) + -len(good) % 8),
                                   struct.pack("<Q", 1 << 40)))):
        result, _, _ = load(case, image, pool)
        case.check(result != 0, f"{words}: the load succeeded")
    case.equal(load(case, good, pool)[0], 0, "a good image afterwards")
