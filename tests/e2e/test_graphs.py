# SPDX-License-Identifier: Apache-2.0
"""Graphs built node by node: the same results and errors remotely as on the driver."""


def test_graphs_are_the_same_remotely_and_locally(case):
    program = case.programs / "graphs"
    driver = case.need_file(case.build / "lib" / "libsoftgpu.so", "libsoftgpu.so is not built")
    (case.folder / "local").mkdir()
    (case.folder / "local" / "libcuda.so.1").symlink_to(driver)
    local = case.run([program], status=None,
                     env={"LD_LIBRARY_PATH": str(case.folder / "local")})
    pool = case.pool()
    remote = pool.run(program, status=None)
    case.equal(remote.out, local.out, "what the program prints")
    case.equal(remote.status, local.status, "exit status")
    for part in ("kernels and their parameters", "host functions", "nodes of any kind",
                 "shape and clone", "captures"):
        case.contains(remote.out, f"{part}: ok", "the program's parts")
