# SPDX-License-Identifier: Apache-2.0
"""A driver whose calls do not return while a host function runs, as NVIDIA's do when its
queues are full: what the function's end needs must not be behind such a call."""

from harness.fault_driver import HOLD, FaultDriver
from test_resume import Line

LAUNCHES = b"cuGraphLaunch"
ALL = b""  # the calls that put work into streams


def holding_pool(case, held):
    """A pool whose driver holds those calls back."""
    driver = FaultDriver(case)
    driver.say(HOLD, 0, held)
    return driver.pool()


def run_held(case, name, held, *ways):
    """The program ends, and well, with the environment of each of @ways."""
    pool = holding_pool(case, held)
    for way in ways:
        pool.run(case.programs / name, core=50, memory="1GiB", env=way)


TCP = {"GPUPOOL_TRANSPORT": "tcp"}
SHM = {"GPUPOOL_TRANSPORT": "shm"}


def test_graph_copies_of_client_memory_go_on_while_calls_are_held(case):
    run_held(case, "graphcopies", ALL, {**TCP, "GPUPOOL_TLS": "require"},
             {**TCP, "GPUPOOL_TLS": "off"}, SHM)


def test_graphs_go_on_while_calls_are_held(case):
    run_held(case, "graphs", ALL, TCP, SHM)


def test_host_nodes_go_on_while_calls_are_held(case):
    run_held(case, "hostnodes", ALL, TCP, SHM)


def test_functions_are_due_while_a_payload_waits_for_the_driver(case):
    """The answer to a copy down has begun and goes on when a function has returned, which
    is said to be due over the control connection."""
    run_held(case, "stress", ALL, {**TCP, "GPUPOOL_TLS": "require"},
             {**TCP, "GPUPOOL_TLS": "off"}, SHM)


def test_host_functions_go_on_while_launches_of_graphs_are_held(case):
    run_held(case, "hostfuncs", LAUNCHES, TCP)


def test_links_are_cut_while_calls_are_held(case):
    line = Line(case, every=0.4 if case.sanitizer else 0.1, pool=holding_pool(case, ALL),
                core=100, memory="1GiB")
    for program in ("graphcopies", "graphs", "stress"):
        line.run(case.programs / program, timeout=7 * case.patience)
    case.check(line.cutter.cuts > 0, "nothing was cut")
    case.wait_for(lambda: not line.pool.workers(), "a worker is left")


def test_programs_without_host_functions_have_no_control_connection(case):
    pool = case.pool()
    words = {}
    for name in ("vecadd", "graphcopies"):
        done = pool.run(case.programs / name, core=50, memory="1GiB",
                        env={"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_LOG": "stub:debug"})
        words[name] = done.err
    case.check("a control connection" not in words["vecadd"], "vecadd makes none")
    case.contains(words["graphcopies"], "a control connection, number 1", "graphcopies")
