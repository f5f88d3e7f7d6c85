# SPDX-License-Identifier: Apache-2.0
"""Cards that do not work are taken out, say why, and come back."""

import json

from harness.fault_driver import ALWAYS, FaultDriver

ECC = 214  # CUDA_ERROR_ECC_UNCORRECTABLE


def card(pool):
    return json.loads(pool.cli("servers", "--json").out)["servers"][0]["cards"][0]


def kinds(pool):
    return [event["kind"] for event in json.loads(pool.cli("events", "--json").out)["events"]]


def faulty_pool(case):
    """A pool of one card, and a function that makes one driver call fail (None: none)."""
    driver = FaultDriver(case)

    def arm(stem):
        if stem:
            driver.say(ALWAYS, ECC, stem.encode())
        else:
            driver.silent()

    pool = driver.pool("--check-seconds", "1")
    return pool, arm


def test_broken_card_is_taken_out_says_why_and_comes_back(case):
    pool, arm = faulty_pool(case)
    pool.run(case.programs / "vecadd")
    arm("cuMemAlloc")
    case.check(pool.run(case.programs / "vecadd", status=None).status != 0, "a program fails")
    case.wait_for(lambda: card(pool)["fault"], "the card is out of use")
    case.equal(card(pool)["fault"],
               "allocating memory fails with error 214, CUDA_ERROR_ECC_UNCORRECTABLE", "why")
    refused = pool.run("true", status=3).err
    case.contains(refused, "it is out of use, something is wrong with it", "the refusal")
    case.contains(refused, "out of use: allocating memory fails with error 214", "of the card")
    case.contains(pool.cli("status").out, "out of use", "the table")
    waits = pool.spawn("echo", "served", options=["--wait=5m"])
    arm(None)
    case.wait_for(lambda: not card(pool)["fault"], "the card is in use again")
    case.equal(waits.stdout.readline(), "served\n", "who waited for it")
    case.equal(waits.wait(case.patience), 0, "its exit status")
    pool.run(case.programs / "vecadd")
    case.equal([kind for kind in kinds(pool) if kind in ("fault", "well")], ["well", "fault"],
               "events, newest first")


def test_program_that_kills_its_worker_takes_no_card_out(case):
    pool, _ = faulty_pool(case)
    session = pool.session(core=30)
    client = session.cudash()
    client.begin()
    case.wait_for(pool.workers, "a worker")
    for pid in pool.workers():
        pool.kill(pid)
    case.wait_for(lambda: "card 0 was checked: it works" in pool.log(), "a check")
    session.close()
    pool.run(case.programs / "vecadd")
    case.equal(card(pool)["fault"], "", "fault of the card")
    case.check("fault" not in kinds(pool), "no event")


def watched_pool(case):
    """A pool of two cards whose NVML reports errors, and a function that makes one."""
    events = case.folder / "events"
    events.touch()
    pool = case.pool(cards=2, env={"SOFTGPU_NVML_EVENTS": str(events),
                                   "GPUPOOL_SERVER_CHECK_SECONDS": "1"})

    def report(words):
        with events.open("a", encoding="utf-8") as file:
            file.write(words + "\n")

    return pool, report


def faults(pool):
    return [one["fault"] for one in
            json.loads(pool.cli("servers", "--json").out)["servers"][0]["cards"]]


def test_error_that_nvml_reports_takes_a_card_out_until_a_check_passes(case):
    pool, report = watched_pool(case)
    session = pool.session(core=30)
    report("0 xid 31")  # a program's own mistake

    def why_out(error):
        """What is shown of the cards while one is out of use.  It is for a second only,
        until a check passes, which a busy machine may miss: the error comes again."""
        def shown():
            found = faults(pool)
            return found if any(found) else report(error)

        return case.wait_for(shown, "a card is out of use")

    def explained():
        report("1 xid 79")
        return "out of use: NVML reports Xid 79" in pool.cli(
            "explain", "--core", "10", "--memory", "1MiB").out

    case.equal(why_out("1 xid 79"), ["", "NVML reports Xid 79, it has fallen off the bus"],
               "why")
    case.wait_for(explained, "the card is out of use for explain, too")
    case.wait_for(lambda: not any(faults(pool)), "a check passes, and it is in use again")
    case.equal(why_out("0 ecc"), ["NVML reports a double-bit ECC error", ""], "why")
    case.wait_for(lambda: not any(faults(pool)), "it is in use again")
    seen = [kind for kind in kinds(pool) if kind in ("fault", "well")]
    case.equal(seen, ["well", "fault"] * max(2, len(seen) // 2), "events")
    case.contains(pool.log(), "NVML reports Xid 31, which programs cause", "what was passed over")
    # The session went on meanwhile.
    case.equal(len(pool.sessions()), 1, "sessions")
    session.close()


def test_watch_over_cards_that_ends_is_started_again_and_the_cards_are_checked(case):
    pool, report = watched_pool(case)
    case.wait_for(lambda: pool.workers(), "the watch runs")
    pool.kill(pool.workers()[0])
    case.wait_for(lambda: "card 0 was checked: it works" in pool.log() and
                  "card 1 was checked: it works" in pool.log(), "the cards are checked")
    report("0 xid 79")
    case.wait_for(lambda: any(faults(pool)), "the new watch reports")
    # A server that goes leaves no watch behind.
    watch = pool.workers()
    pool.kill(pool.pid("gpupool-server"))
    case.wait_for(lambda: not pool.workers(), f"no watch is left of {watch}")
