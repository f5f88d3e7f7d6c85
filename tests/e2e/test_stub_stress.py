# SPDX-License-Identifier: Apache-2.0
"""Many threads of one process, host functions, and children that must stay away."""


def stress(case, **env):
    done = case.pool().run(case.programs / "stress", env=env)
    case.contains(done.out, ": ok\n", "what the program found")


def test_threads_and_host_functions_lose_nothing_over_tcp(case):
    stress(case, GPUPOOL_TRANSPORT="tcp")


def test_threads_and_host_functions_lose_nothing_over_shared_memory(case):
    stress(case, GPUPOOL_TRANSPORT="shm")


def test_unknown_transport_is_named(case):
    pool = case.pool()
    done = pool.run(case.programs / "stress", env={"GPUPOOL_TRANSPORT": "pigeon"}, status=1)
    case.contains(done.err, "GPUPOOL_TRANSPORT=pigeon: auto, tcp", "the one line")
