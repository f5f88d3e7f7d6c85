# SPDX-License-Identifier: Apache-2.0
"""SIGHUP reads the options again, of the scheduler and of the server: what can change does,
the log names what cannot."""

import os
import signal
import urllib.request


class Scheduler:
    """That of a pool, with a file of options."""

    def __init__(self, case, *more, **options):
        self.case, self.pool = case, case.pool(servers=1, cards=1)
        self.file = case.folder / "scheduler.conf"
        self.write(**options)
        self.pid = self.pool.restart(self.pool.pid("gpupool-scheduler"), "--config", self.file, *more,
                                     without=("--placement", "--lease-ms", "--heartbeat-ms"))
        self.reloads = 0
        case.wait_for(lambda: self.server()["state"] == "alive", "the server is back")

    def write(self, **options):
        lines = [f"{name.replace('_', '-')} = {value}\n" for name, value in options.items()]
        self.file.write_text("# options\n" + "".join(lines), encoding="utf-8")

    def server(self):
        return self.pool.status()["servers"][0]

    def log(self):
        return self.pool.log()

    def reload(self, words="rules, tokens and key were read again", **options):
        """With other options, until the log says @words once more."""
        before = self.log().count(words)
        self.write(**options)
        os.kill(self.pid, signal.SIGHUP)
        self.case.wait_for(lambda: self.log().count(words) > before, words)

    def values(self, *names):
        status = self.pool.status()
        return tuple(status[name] for name in names)


def test_options_change_without_a_restart(case):
    scheduler = Scheduler(case, lease_ms=40000)
    names = ("lease_ms", "heartbeat_ms", "placement")
    case.equal(scheduler.values(*names), (40000, 2000, "binpack"), "at first")
    session = scheduler.pool.session(core=10, memory="64MiB")
    scheduler.reload(lease_ms=50000, heartbeat_ms=100, placement="spread", owner_sessions=1)
    case.equal(scheduler.values(*names), (50000, 100, "spread"), "after SIGHUP")
    case.contains(scheduler.log(), "changed: --placement, --heartbeat-ms, --lease-ms, --owner-sessions",
                  "what the scheduler says")
    case.wait_for(lambda: "reports every 100 ms, as the scheduler asks" in scheduler.log(),
                  "the server reports more often")
    refused = scheduler.pool.run("true", core=10, memory="64MiB", status=3).err
    case.contains(refused, "1 sessions", "the cap of an owner")
    case.check(scheduler.pool.sessions(), "the session goes on")
    scheduler.reload()
    case.equal(scheduler.values(*names), (30000, 2000, "binpack"), "what the file no longer says")
    case.equal(scheduler.server()["state"], "alive", "the server")
    session.close()


def test_log_level_changes_without_a_restart(case):
    scheduler = Scheduler(case)
    scheduler.pool.cli("drain", "local-1")
    scheduler.pool.cli("drain", "--undo", "local-1")
    lines = scheduler.log().count("accepts sessions again")
    case.check(lines, "it logs at info")
    scheduler.reload("changed: --log", log="server:error")
    scheduler.pool.cli("drain", "--undo", "local-1")
    case.equal(scheduler.log().count("accepts sessions again"), lines, "lines of the area that is silent")
    scheduler.reload("changed: --log", log="server:info")
    scheduler.pool.cli("drain", "--undo", "local-1")
    case.equal(scheduler.log().count("accepts sessions again"), lines + 1, "lines at info again")


def test_what_needs_a_restart_is_named_each_time(case):
    scheduler = Scheduler(case, "--lease-ms", "60000", lease_ms=40000)
    case.equal(scheduler.values("lease_ms"), (60000,), "a flag decides over the file")
    words = "changed, but needs a restart: --tls, --metrics-listen"
    for lease in (41000, 42000):
        scheduler.reload(words, tls="require", metrics_listen="127.0.0.1:0", lease_ms=lease)
    case.equal(scheduler.values("lease_ms"), (60000,), "a flag still does")
    case.check("changed: " not in scheduler.log(), "nothing else has changed")


def test_file_with_a_fault_changes_nothing(case):
    scheduler = Scheduler(case, lease_ms=40000)
    for options, words in (({"placement": "spread", "lease_ms": 1}, f"{scheduler.file}:3: "),
                           ({"placement": "spread", "leese_ms": 1}, "leese-ms"),
                           ({"placement": "spread", "log": "sched:loud"}, "--log sched:loud: "),
                           ({"placement": "spread", "rules": "/nosuch"}, "/nosuch")):
        scheduler.reload(words, **options)
        case.contains(scheduler.log(), "options, rules, tokens and key stay as they were", "the log")
        case.equal(scheduler.values("lease_ms", "placement"), (40000, "binpack"), f"after {options}")


class Server:
    """That of a pool, with a file of options."""

    def __init__(self, case, *more, **options):
        self.case, self.pool = case, case.pool(servers=1, cards=1)
        self.file = case.folder / "server.conf"
        self.write(**options)
        self.pid = self.pool.restart(self.pool.pid("gpupool-server"), "--config", self.file, *more,
                                     without=("--scheduler-key",))

    write, log, reload_until = Scheduler.write, Scheduler.log, Scheduler.reload

    def reload(self, words="options, token and key were read again", **options):
        self.reload_until(words, **options)

    def metrics(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                    timeout=self.case.patience) as answer:
            return answer.read().decode()


def test_server_takes_options_without_a_restart(case):
    server = Server(case, max_attachments=1)
    session = server.pool.session(core=10, memory="64MiB")
    first = session.cudash()
    first.begin()
    vecadd = case.programs / "vecadd"
    refused = session.run(vecadd, status=None)
    case.check(refused.status != 0, "a second client process where one may attach")
    server.reload(max_attachments=2, rate_refusals=7, check_seconds=5)
    case.contains(server.log(), "changed: --max-attachments, --rate-refusals, --check-seconds",
                  "what the server says")
    first.ok("sync")  # it goes on
    session.run(vecadd)
    server.reload()  # what the file no longer says
    session.run(vecadd)
    first.close()
    session.close()


def test_server_names_what_needs_a_restart_each_time(case):
    port = case.free_port()
    server = Server(case, "--metrics-listen", f"127.0.0.1:{port}", "--max-sessions", "9",
                    max_sessions=5)
    words = "changed, but needs a restart: --worker-memory, --image-cache"
    for limit in (6, 7):
        server.reload(words, worker_memory="1GiB", image_cache="off", max_sessions=limit)
    case.check("changed: " not in server.log(), "a flag decides over the file")
    case.contains(server.metrics(port), "gpupool_server_registered 1", "the server goes on")


def test_server_with_a_faulty_file_stays_as_it_is(case):
    server = Server(case, max_attachments=40)
    for options, words in (({"max_attachments": 41, "max_sessions": 0}, f"{server.file}:3: "),
                           ({"max_attachments": 42, "max_sesions": 1}, "max-sesions"),
                           ({"max_attachments": 43, "scheduler_key": "/nosuch"}, "/nosuch")):
        server.reload(words, **options)
        case.contains(server.log(), "options, token and key stay as they were", "the log")
    server.reload(max_attachments=40)
    case.check("changed: " not in server.log(), "the options are those of before")
    server.reload("changed: --max-attachments", max_attachments=44)


def events_after_rotation(case, daemon, audit, faulty, words):
    """The audit log is renamed while the daemon's options have a fault, and one session is run."""
    old = audit.with_suffix(".1")
    audit.rename(old)
    daemon.reload(words, **faulty)
    before = old.read_text()
    daemon.pool.run(case.programs / "vecadd", core=10, memory="64MiB")
    case.equal(old.read_text(), before, "what went to the renamed file after SIGHUP")
    return audit.read_text()


def test_audit_log_rotates_although_another_file_has_a_fault(case):
    audit = case.folder / "audit"
    scheduler = Scheduler(case, "--audit-log", audit)
    text = events_after_rotation(case, scheduler, audit, {"lease_ms": 1}, "stay as they were")
    case.contains(text, '"event":"grant"', "the scheduler's new file")


def test_servers_audit_log_rotates_although_another_file_has_a_fault(case):
    audit = case.folder / "audit"
    server = Server(case, "--audit-log", audit)
    text = events_after_rotation(case, server, audit, {"max_sessions": 0}, "stay as they were")
    case.contains(text, '"event":"attach"', "the server's new file")


def test_log_file_is_opened_anew_after_a_rotation(case):
    file = case.folder / "daemons.log"
    pool = case.pool(env={"GPUPOOL_LOG_FILE": str(file)})
    case.contains(file.read_text(), "listening on", "the log")
    old = file.with_suffix(".1")
    file.rename(old)
    for program, words in (("gpupool-scheduler", "rules, tokens and key were read again"),
                           ("gpupool-server", "options, token and key were read again")):
        os.kill(pool.pid(program), signal.SIGHUP)
        case.wait_for(lambda words=words: file.exists() and words in file.read_text(),
                      lambda words=words: f"{words} in the new file; the old one has:\n"
                      f"{old.read_text()}")
        case.check(words not in old.read_text(), f"{program} writes to the old file")
