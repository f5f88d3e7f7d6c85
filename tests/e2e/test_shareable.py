# SPDX-License-Identifier: Apache-2.0
"""Memory that one process exports by descriptor: who may import it, and who pays."""

from test_families import same_remotely_and_locally


def test_descriptors_of_memory_and_pools_work_between_processes(case):
    same_remotely_and_locally(case, "shareable")


def test_descriptor_opens_memory_to_its_own_session_only(case):
    """The same descriptor, sent to a process of another session, then to one of its own;
    there every message with one wrong bit, and every wrong length, is refused too."""
    pool = case.pool()
    path = case.folder / "meet"
    ours = pool.session(core=20, memory="64MiB")
    theirs = pool.session(core=20, memory="64MiB")
    giver = case.spawn([case.programs / "shareable", "give", path], env=ours.env)
    case.equal(giver.stdout.readline(), "listening\n", "the process that exports")
    foreign = theirs.run(case.programs / "shareable", "take", path).out
    case.equal(foreign, "imported: 1\na copy: 1, forged and taken: 0\n",
               "what a process of another session gets")
    own = ours.run(case.programs / "shareable", "take", path).out
    case.equal(own, "imported: 0\na copy: 0, forged and taken: 0\n",
               "what a process of the same session gets")
    case.equal(giver.wait(case.patience), 0, "exit status of the process that exports")


def test_imported_memory_is_paid_for_when_its_maker_is_gone(case):
    """The giver ends; what the taker still has counts against the session's limit."""
    pool = case.pool()
    session = pool.session(core=20, memory="64MiB")
    path = case.folder / "meet"
    giver = case.spawn([case.programs / "shareable", "lend", path], env=session.env)
    case.equal(giver.stdout.readline(), "listening\n", "the process that exports")
    taker = case.spawn([case.programs / "shareable", "keep", path], env=session.env)
    case.equal(taker.stdout.readline(), "kept\n", "the process that imports")

    def used():
        return pool.sessions()[0]["slices"][0]["used_bytes"]

    case.equal(giver.wait(case.patience), 0, "exit status of the process that exports")
    case.wait_for(lambda: used() == 2 << 20 and len(pool.workers()) == 1,
                  lambda: f"the importer pays 2 MiB: {used()}")
    taker.stdin.write("\n")
    taker.stdin.flush()
    case.equal(taker.wait(case.patience), 0, "exit status of the process that imports")
    case.wait_for(lambda: used() == 0, lambda: f"nothing is left: {used()}")
