# SPDX-License-Identifier: Apache-2.0
"""What only a network card can show: run by tests/rdma/run.sh in a guest that has one."""

import os
import signal


def rdma_pool(case, **options):
    if os.environ.get("E2E_TRANSPORT") != "rdma":
        case.skip("no RDMA port here (make test-rdma makes one in a virtual machine)")
    return case.pool(**options)


def test_attaches_over_rdma_and_says_so(case):
    pool = rdma_pool(case)
    result = pool.run(case.programs / "vecadd", env={"GPUPOOL_LOG": "stub:info"})
    case.contains(result.err, "over rdma", "the stub's log")


def test_server_without_a_port_says_why_it_stays_with_tcp(case):
    pool = rdma_pool(case, options=["--rdma", "127.0.0.1"])
    result = pool.run(case.programs / "vecadd", status=None)
    case.contains(result.err, "does not offer RDMA", "what went wrong")
    case.contains(result.err, "no RDMA port has the address 127.0.0.1", "the reason")


def test_attaches_a_hundred_times(case):
    pool = rdma_pool(case, driver="null")
    session = pool.session()
    for _ in range(100):
        shell = session.cudash().begin()
        case.equal(shell.close(), 0, "exit status of cudash")
    case.wait_for(lambda: not pool.workers(), "workers outlive their clients")


def test_killed_worker_ends_its_client_at_once(case):
    pool = rdma_pool(case)
    shell = pool.session().cudash().begin()
    pool.kill(pool.workers()[0])
    with case.within(10, "the client notices"):
        result, *_ = shell("alloc", 1 << 20)
    case.check(result != 0, "a call succeeded though the worker is dead")


def test_killed_client_leaves_nothing(case):
    pool = rdma_pool(case)
    shell = pool.session().cudash().begin()
    os.kill(shell.process.pid, signal.SIGKILL)
    with case.within(10, "the worker ends"):
        case.wait_for(lambda: not pool.workers(), "the worker outlives its client")


def test_cut_link_is_noticed_in_seconds(case):
    pool = rdma_pool(case)
    if os.environ.get("RDMA_VM_NET") != "pair":
        case.skip("the guest's RDMA port is a dummy interface, which cannot be cut (-n pair)")
    shell = pool.session().cudash().begin()
    shell.ok("alloc", 1 << 20)
    try:
        case.run(["ip", "link", "set", "rdma1", "down"])
        with case.within(20, "the client notices"):
            result, *_ = shell("alloc", 1 << 20)
    finally:
        case.run(["ip", "link", "set", "rdma1", "up"])
    case.check(result != 0, "a call succeeded over a link that is down")
    with case.within(20, "the worker notices"):
        case.wait_for(lambda: not pool.workers(), "the worker outlives the link")
