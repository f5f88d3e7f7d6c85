# SPDX-License-Identifier: Apache-2.0
"""The client library decides nothing by memory that nobody has written: programs under
valgrind's memcheck, over TCP, for threads that look at shared memory make it very slow, and in clear text, for a
handshake may take longer than a server waits.  It sees no other process, so the worker is not looked at."""

import os
import pathlib
import shutil

SUPPRESSIONS = pathlib.Path(__file__).resolve().parents[1] / "data" / "memcheck.supp"
SHORT = ("waited", "batches")
# Not "unified": what is sent of its pages, and so all behind that, depends on bytes that it leaves as they are; nor
# "landing", which waits for no longer than a program has patience that is not under valgrind.
MEMORY = ("advice", "arraypieces", "boxes", "copies", "kept", "managed", "moves", "overtaken", "pinned",
          "released", "reloads", "reopened", "retained", "rooms", "shareable", "space", "spares", "textures",
          "unmapped")
STREAMS = ("asked", "blocking", "callbacks", "cancelled", "counted", "elapsed", "flags", "hostfuncs", "notices",
           "order", "pipeline", "processes", "stated", "threads", "turns", "wakers")
OBJECTS = ("conditions", "features", "graphcopies", "graphends", "graphs", "handles", "hostnodes", "ipc", "listings",
           "loading", "negative", "nodes", "primary", "queries", "rarecalls", "reduce", "rules", "shapes", "sources",
           "updates", "waitnodes")
FOUND = 99  # the exit status where memcheck has something to say


def checked(case, session, program):
    log = case.folder / f"memcheck-{program}.txt"
    done = session.run("valgrind", "-q", f"--error-exitcode={FOUND}", "--error-limit=no", f"--log-file={log}",
                       f"--suppressions={SUPPRESSIONS}", case.programs / program,
                       env={"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_TLS": "off"}, status=None, timeout=300)
    case.check(done.status != FOUND, f"{program}:\n{log.read_text()[:4000] if log.exists() else ''}")
    case.equal(done.status, 0, f"{program}: {done.out[-400:]}{done.err[-400:]}")


def checked_all(case, programs, long=True):
    if case.sanitizer:
        case.skip("valgrind runs no program with a sanitizer")
    if long and "GPUPOOL_MEMCHECK" not in os.environ:
        case.skip("it takes minutes: make test-memcheck")
    if not shutil.which("valgrind"):
        case.skip("there is no valgrind: make test-memcheck")
    session = case.pool(cards=2).session(core=100, memory="1GiB")
    for program in programs:
        checked(case, session, program)


def test_calls_do_not_depend_on_memory_that_nobody_has_written(case):
    checked_all(case, SHORT, long=False)


def test_nor_do_calls_for_memory(case):
    checked_all(case, MEMORY)


def test_nor_do_calls_for_streams_and_events(case):
    checked_all(case, STREAMS)


def test_nor_do_calls_for_graphs_and_other_objects(case):
    checked_all(case, OBJECTS)
