# SPDX-License-Identifier: Apache-2.0
"""Graphs built node by node: the same results and errors remotely as on the driver."""

import re


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


def test_launch_of_a_graph_is_one_frame(case):
    """By what the worker counted: a launch more is a frame more, and a few bytes."""
    pool = case.pool(env={"GPUPOOL_LOG": "worker:debug"})

    def travelled(launches):
        before = len(re.findall(r"(\d+) frames, (\d+) bytes in", pool.log()))
        done = pool.run(case.programs / "graphframe", launches, core=100,
                        env={"GPUPOOL_TRANSPORT": "tcp"})
        case.contains(done.out, ": ok\n", "graphframe")

        def told():
            return re.findall(r"(\d+) frames, (\d+) bytes in", pool.log())[before:]
        frames, size = case.wait_for(told, "the worker tells its counts")[0]
        return int(frames), int(size)

    few_frames, few_bytes = travelled(1)
    many_frames, many_bytes = travelled(41)
    case.equal(many_frames - few_frames, 40, "frames of 40 launches more")
    case.check(many_bytes - few_bytes <= 40 * 64,
               f"40 launches of 100 kernels took {many_bytes - few_bytes} bytes")
