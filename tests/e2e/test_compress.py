# SPDX-License-Identifier: Apache-2.0
"""Payloads that travel compressed arrive as they were; shared memory never has them."""

from harness import Host

PROGRAMS = ("vecadd", "matmul", "pipeline", "histogram")


def compressed(host):
    """(bytes before, bytes on the wire) of all sessions."""
    return (host.metric("compressed_bytes_total"),
            host.metric("compressed_wire_bytes_total"))


def test_programs_compute_the_same_with_everything_compressed(case):
    host = Host(case)
    session = host.pool.session(memory="1GiB")
    for program in PROGRAMS:
        session.run(case.programs / program,
                    env={"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_COMPRESS": "always"})
    before, wire = compressed(host)
    print(f"{before} bytes became {wire}")
    case.check(before > 1 << 20, f"{before} bytes were compressed")
    case.check(0 < wire < before, f"{before} bytes became {wire}")


def test_nothing_is_compressed_where_it_is_off_or_memory_is_shared(case):
    host = Host(case)
    session = host.pool.session(memory="1GiB")
    for env in ({"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_COMPRESS": "off"},
                {"GPUPOOL_TRANSPORT": "shm", "GPUPOOL_COMPRESS": "always"}):
        session.run(case.programs / "pipeline", env=env)
    case.equal(compressed(host), (0.0, 0.0), "bytes compressed, bytes they became")


def test_word_that_is_no_setting_is_named(case):
    pool = case.pool()
    done = pool.run(case.programs / "vecadd", env={"GPUPOOL_COMPRESS": "sometimes"}, status=None)
    case.check(done.status != 0, "vecadd ran")
    case.contains(done.err, "GPUPOOL_COMPRESS=sometimes: auto, off or always", "stderr")
