# SPDX-License-Identifier: Apache-2.0
"""Clients and servers of different age: an older client always works, a newer one is told."""

import socket
import struct

from test_hostile_server import attach_request, where
from test_proc_address import ASK

VERSIONS = (12040, 12050, 12060, 12080, 12090, 13000)
# A call of each age, and one that every driver has.
SINCE = {"cuMemAlloc_v2": 3020, "cuLibraryGetModule": 12000, "cuMemAdvise_v2": 12020,
         "cuFuncGetParamInfo": 12040, "cuKernelGetLibrary": 12050, "cuStreamGetDevice": 12080,
         "cuEventElapsedTime_v2": 12080}


def test_driver_of_any_age_behind_the_server(case):
    """A driver of 12.x or 13.x: programs run, its version is the program's, and what came
    later is not found."""
    for version in VERSIONS:
        pool = case.pool(env={"SOFTGPU_CUDA_VERSION": str(version)})
        shell = pool.session(core=30, memory="64MiB").cudash().begin()
        case.equal(shell.ok("version"), version, "cuDriverGetVersion")
        done = pool.run(case.programs / "vecadd", memory="64MiB")
        case.contains(done.out, ": ok\n", f"vecadd with a driver of {version}")
        if not case.sanitizer:
            asked = pool.run("python3", "-c", ASK, *SINCE, memory="64MiB")
            found = {line.split()[0]: line.split()[1] for line in asked.out.splitlines()}
            case.equal(found, {name: "0" if since <= version else "500"
                               for name, since in SINCE.items()},
                       f"lookups with a driver of {version}")
        pool.stop()


def test_driver_that_is_too_old_is_refused_with_the_reason(case):
    done = case.run([case.build / "bin" / "gpupool", "up"], status=None,
                    env={"SOFTGPU_CUDA_VERSION": "12020"})
    case.check(done.status not in (0, None), "a server started on a driver of 12.2")
    case.contains(done.out + done.err + "".join(
        path.read_text() for path in case.folder.rglob("*.log")),
        "speaks CUDA 12.2: 12.4 is the oldest", "the reason")


def test_runtime_that_is_newer_than_the_driver_is_told(case):
    if case.sanitizer:
        case.skip(f"nvcc's programs are built without -fsanitize={case.sanitizer}")
    program = case.need_file(case.programs / "vecadd-static", "there is no nvcc")
    pool = case.pool(env={"SOFTGPU_CUDA_VERSION": "12040"})
    done = pool.run(program, status=None)
    case.check(done.status not in (0, None), "a runtime of 13.0 ran on a driver of 12.4")
    case.contains(done.err, "the program asks for CUDA 13.0, the server's driver speaks 12.4",
                  "what the client library says")


def test_client_that_is_newer_than_the_server_is_told(case):
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB")
    for minor in (1, 77):
        with socket.create_connection(where(session), timeout=case.patience) as sock:
            sock.sendall(attach_request(session.field("ticket"), minor=minor))
            size, = struct.unpack("<I", sock.recv(4, socket.MSG_WAITALL))
            reply = sock.recv(size, socket.MSG_WAITALL)
        case.contains(reply.decode("utf-8", "replace"), f"the client speaks protocol 1.{minor}, "
                      "this server 1.0: a server must not be older than its clients",
                      "the refusal")
    case.contains(session.run(case.programs / "vecadd").out, ": ok\n", "the session goes on")
