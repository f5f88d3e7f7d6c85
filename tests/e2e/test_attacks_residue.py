# SPDX-License-Identifier: Apache-2.0
"""Memory that a session leaves holds nothing of it when another session gets it."""


def filled(case, pool, how):
    """A program of a session of its own whose pattern is in memory of every kind."""
    program = pool.spawn(case.programs / "residue", how, core=10, memory="192MiB")
    case.equal(program.stdout.readline(), "filled\n", "what the program says")
    return program


def finds_nothing(case, pool, when):
    done = pool.run(case.programs / "residue", "look", core=10, memory="192MiB")
    case.equal(done.out, "looked at 6 kinds\n", f"what another session finds {when}")


def test_attacks_other_session_finds_no_byte_of_a_live_session(case):
    pool = case.pool(servers=1, cards=1)
    program = filled(case, pool, "fill")
    finds_nothing(case, pool, "beside it")
    program.stdin.close()
    program.wait(case.patience)


def test_attacks_other_session_finds_no_byte_of_one_that_freed_and_lives(case):
    pool = case.pool(servers=1, cards=1)
    program = filled(case, pool, "free")
    finds_nothing(case, pool, "behind it")
    program.stdin.close()
    program.wait(case.patience)


def test_attacks_next_session_finds_no_byte_of_one_that_ended(case):
    """On a card that has no room for both."""
    pool = case.pool(servers=1, cards=1, options=["--memory", "192MiB"])
    for _ in range(3):
        program = filled(case, pool, "fill")
        program.stdin.close()
        case.equal(program.wait(case.patience), 0, "exit status")
        case.wait_for(lambda: not pool.workers(), "its worker ends")
        finds_nothing(case, pool, "after it")


def test_attacks_next_session_finds_no_byte_of_one_whose_worker_was_killed(case):
    pool = case.pool(servers=1, cards=1, options=["--memory", "192MiB"])
    program = filled(case, pool, "fill")
    for worker in pool.workers():
        pool.kill(worker)
    program.stdin.close()
    program.wait(case.patience)
    finds_nothing(case, pool, "after its worker's death")
