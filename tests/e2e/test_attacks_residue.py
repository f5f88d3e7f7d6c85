# SPDX-License-Identifier: Apache-2.0
"""Memory that a session leaves holds nothing of it when another session gets it."""

from harness.pool import SERVER

MIB = 1 << 20


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


def test_look_sees_what_a_card_that_clears_nothing_hands_on(case):
    """The control of the tests above, whose cards are fresh memory of a process: with this
    driver (tests/residuedrv) what one session has freed is what the next one finds."""
    driver = case.build / "tests" / "softgpu-residue" / "libresiduedrv.so"
    card = case.folder / "card"
    card.write_bytes(bytes(4 * 24 * MIB))
    card.chmod(0o666)
    pool = case.pool(servers=1, cards=1, env={"RESIDUE_CARD": str(card)})
    pool.restart(pool.pid(SERVER), "--driver", str(driver))
    finds_nothing(case, pool, "on a card that nobody has used")
    program = filled(case, pool, "free")
    program.stdin.close()
    case.equal(program.wait(case.patience), 0, "exit status")
    done = pool.run(case.programs / "residue", "look", core=10, memory="192MiB")
    case.equal(done.out, "".join(f"{kind}: {24 * MIB} bytes of {24 * MIB} are not zero\n"
                                 for kind in ("linear", "pool", "mapped", "array"))
               + "looked at 6 kinds\n", "what another session finds")
