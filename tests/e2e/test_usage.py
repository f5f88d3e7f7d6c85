# SPDX-License-Identifier: Apache-2.0
"""Accounting: who held and used how much, by owner, tenant and day, also after restarts."""

import json
import re
import signal
import time

RULES = "[tenant lab]\nowners = ada@*, bob@*\n"


class Usage:
    def __init__(self, case, *options):
        self.case = case
        self.pool = case.pool()
        rules = case.folder / "rules"
        rules.write_text(RULES)
        self.pool.restart(self.pool.pid("gpupool-scheduler"), "--rules", rules, *options)
        case.wait_for(self.is_whole, "the server is back")

    def is_whole(self):
        return all(server["state"] == "alive" for server in self.pool.status()["servers"])

    def rows(self, *options):
        return json.loads(self.pool.cli("usage", "--json", *options).out)["usage"]

    def row(self, owner):
        return next((row for row in self.rows("--owner", owner)), None)

    def run(self, owner, *program, core=30, transport="shm"):
        """Run a program; how long that took."""
        begin = time.monotonic()
        self.pool.run(*program, core=core, memory="256MiB", options=("--owner", owner),
                      env={"GPUPOOL_TRANSPORT": transport})
        return time.monotonic() - begin


def test_owners_are_charged_for_what_they_held_and_used(case):
    usage = Usage(case)
    whole = usage.run("ada@host", "sleep", "1", core=50)
    usage.run("ada@host", case.programs / "vecadd")
    usage.run("bob@host", case.programs / "vecadd")
    usage.run("tom@host", case.programs / "vecadd", transport="tcp")
    usage.run("eve@host", "true")
    ada, bob = usage.row("ada@host"), usage.row("bob@host")
    case.equal((ada["sessions"], ada["tenant"], bob["sessions"]), (2, "lab", 1), "sessions")
    # Half a card, for a second at least and for as long as all of it took at most.
    case.check(0.5 <= ada["card_seconds"] <= 0.5 * whole + 0.3 * case.patience, str(ada))
    case.check(ada["card_seconds"] - bob["card_seconds"] >= 0.4, f"{ada}, {bob}")
    case.check(0.25 <= ada["memory_gib_seconds"], str(ada))
    case.check(ada["slice_seconds"] >= 1, str(ada))
    # Whole programs began and ended between two reports of the server's.
    for owner in ("bob@host", "tom@host"):
        row = usage.row(owner)
        case.check(row["launches"] >= 1 and row["gpu_seconds"] > 0, str(row))
        case.equal(row["moved_bytes"], bob["moved_bytes"], f"moved for {owner}")
    case.check(bob["moved_bytes"] >= 2_400_000, str(bob))
    case.equal(usage.row("eve@host")["launches"], 0, "what true launches")

    tenants = {row["tenant"]: row for row in usage.rows("--by", "tenant")}
    case.equal(sorted(tenants), ["eve@host", "lab", "tom@host"], "tenants")
    case.equal(tenants["lab"]["sessions"], 3, "sessions of the tenant")
    total = round(ada["card_seconds"] + bob["card_seconds"], 6)
    case.equal(round(tenants["lab"]["card_seconds"], 6), total, "what the tenant held")
    days = usage.rows("--by", "day")
    case.equal(sum(row["sessions"] for row in days), 5, "sessions of all days")
    case.equal(usage.rows("--since", days[-1]["day"], "--until", "2d"), [],
               "between today and yesterday")
    case.equal(len(usage.rows("--since", "2d")), 4, "owners of the last days")

    lines = usage.pool.cli("usage").out.splitlines()
    case.contains(lines[0], "OWNER", "the head")
    case.contains(lines[1], "ada@host", "who held most comes first")
    done = usage.pool.cli("usage", "--since", "yesterday", status=2)
    case.contains(done.err, "a day like 2026-11-23", "a day that is none")
    done = usage.pool.cli("usage", "--sort", "odd", status=2)
    case.contains(done.err, "no such column, but OWNER, TENANT", "a column that is none")
    numbers = re.findall(r"\d+\.(\d+)", usage.pool.cli("usage", "--json").out)
    case.check(numbers and max(map(len, numbers)) <= 15, f"digits behind the point: {numbers}")


def test_session_that_runs_is_charged_while_it_does(case):
    usage = Usage(case, "--account-write-ms", "1000")
    session = usage.pool.session(core=100, memory=None, options=("--owner", "ada@host"))
    case.wait_for(lambda: (usage.row("ada@host") or {}).get("card_seconds", 0) >= 1.5,
                  "a session that goes on is entered")
    before = usage.row("ada@host")
    # Neither a stop nor a kill -9 loses more than what was not written yet; the session goes
    # on and is charged on.
    pid = usage.pool.pid("gpupool-scheduler")
    usage.pool.restart(pid)
    case.wait_for(usage.is_whole, "the server is back")
    after = usage.row("ada@host")
    case.check(after["card_seconds"] >= before["card_seconds"] - 1.6, f"{before}, {after}")
    case.equal(after["sessions"], 1, "the session is not counted twice")
    case.wait_for(lambda: usage.row("ada@host")["card_seconds"] > before["card_seconds"] + 1,
                  "it goes on")
    session.close()
    case.wait_for(lambda: not usage.pool.sessions(), "the session is gone")
    before = usage.rows()
    pid = usage.pool.pid("gpupool-scheduler")
    start = usage.pool.starter(pid)
    usage.pool.kill(pid, signal.SIGTERM)
    case.wait_for(lambda: usage.pool._gone(pid), "the scheduler stops")
    start()
    case.wait_for(lambda: usage.pool.cli("status", status=None).status == 0, "it is back")
    case.equal(usage.rows(), before, "rows after a stop")
