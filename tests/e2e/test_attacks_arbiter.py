# SPDX-License-Identifier: Apache-2.0
"""A worker that its client has taken over harms nobody but its own session.

The driver of these pools (tests/attackdrv) attacks from inside of a real worker what that
shares with the supervisor, when it is asked for an allocation of one of a few odd sizes.
Others' results and shares hold, the server lives, attaches and reaps.
"""

from harness import proc
from harness.cudash import OUT_OF_MEMORY
from test_shares import Load, POINTS, run_together, some_round

MIB = 1 << 20
INDEX, LOCK, LIMIT, SCRIBBLE, SMALL = range(7777001, 7777006)
ATTACKED, CONTROL = ("--server", "local-1"), ("--server", "local-2")


def attacked_pool(case, *options, servers=1):
    """A pool, and the server local-1 of it, whose workers can attack."""
    library = case.need_file(case.build / "tests" / "softgpu-attack" / "libattackdrv.so",
                             "the driver that attacks")
    pool = case.pool(servers=servers)
    first, = (pid for pid in pool.pids("gpupool-server")
              if "local-1" in proc.command_line(pid))
    return pool, pool.restart(first, "--driver", str(library), *options)


def victim(case, pool):
    """A session that works: its shell, and memory that it has filled."""
    shell = pool.session(core=20, memory="64MiB", options=ATTACKED).cudash().begin()
    slot = shell.ok("alloc", 8 * MIB)
    shell.ok("store", slot, 0, 123)
    return shell, slot


def attack(pool, how):
    """A session, and a shell in it whose worker has carried the attack out."""
    session = pool.session(core=20, memory="64MiB", options=ATTACKED)
    shell = session.cudash().begin()
    shell.ok("alloc", how)
    return session, shell


def reap(case, pool, mallory):
    """Kill the attacker; its worker ends and so does its session."""
    session, shell = mallory
    before = len(pool.workers())
    pool.kill(shell.process.pid)
    case.wait_for(lambda: len(pool.workers()) < before, "the attacker's worker is reaped")
    session.close()


def unharmed(case, pool, server, shell, slot):
    """The server is the same one, serves who was there, and whoever comes."""
    case.check(server in pool.pids("gpupool-server"), "the server's process is another one")
    case.equal(shell.ok("peek", slot, 0), 123, "what the victim had in its memory")
    shell.ok("free", shell.ok("alloc", MIB))
    session = pool.session(core=10, memory="64MiB", options=ATTACKED)
    late = session.cudash().begin()
    late.ok("free", late.ok("alloc", MIB))
    case.equal(late.close(), 0, "status of one that came later")
    session.close()


def test_attacks_on_an_index_do_not_end_the_server(case):
    pool, server = attacked_pool(case)
    shell, slot = victim(case, pool)
    mallory = attack(pool, INDEX)
    reap(case, pool, mallory)
    unharmed(case, pool, server, shell, slot)


def test_attacks_on_a_lock_do_not_stop_the_server(case):
    pool, server = attacked_pool(case)
    shell, slot = victim(case, pool)
    mallory = attack(pool, LOCK)
    reap(case, pool, mallory)
    unharmed(case, pool, server, shell, slot)


def test_attacks_on_its_own_limit_leave_it_as_it_is(case):
    pool, server = attacked_pool(case)
    shell, slot = victim(case, pool)
    _, mallory = attack(pool, LIMIT)
    case.equal(mallory("alloc", 300 * MIB)[0], OUT_OF_MEMORY,
               "CUresult of 300 MiB in a session of 64")
    unharmed(case, pool, server, shell, slot)


def test_attacks_of_a_scribbler_take_nobodys_share(case):
    """Two sessions have what they are promised, or, on a machine that is too busy for
    that, what the same two have at the same time on a server that nobody attacks."""
    pool, server = attacked_pool(case, servers=2)
    shell, slot = victim(case, pool)
    cores = (20, 30)
    sessions = [pool.session(core=core, memory="128MiB", options=("--policy", "fs", *where))
                for where in (ATTACKED, CONTROL) for core in cores]
    mallory = attack(pool, SCRIBBLE)

    def measure():
        return run_together(case, *([Load(case, session, number, "--kernel-us=2000")]
                                    for number, session in enumerate(sessions)))

    def holds(*parts):
        return all(part > min(core / 100, alone) - POINTS
                   for core, part, alone in zip(cores, parts, parts[len(cores):]))

    some_round(case, measure, holds, "parts of the card beside a scribbler, and without one")
    unharmed(case, pool, server, shell, slot)
    reap(case, pool, mallory)
    unharmed(case, pool, server, shell, slot)


def test_attacks_with_small_numbers_end_with_the_attacker(case):
    """Among them are those that keep the card: as with a kernel that never ends, the
    attacker's worker is ended after the work limit, and others go on."""
    pool, server = attacked_pool(case, "--work-limit", "1")
    shell, slot = victim(case, pool)
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    bumped = shell.ok("alloc", MIB)
    shell.ok("store", bumped, 0, 0)
    for round_ in range(3):
        mallory = attack(pool, SMALL)
        for _ in range(200):
            shell.ok("launch", "bump", 1, 1, bumped, 1)
            shell.ok("sync")
        case.equal(shell.ok("peek", bumped, 0), 200 * (round_ + 1), "what its kernels did")
        reap(case, pool, mallory)
        unharmed(case, pool, server, shell, slot)
