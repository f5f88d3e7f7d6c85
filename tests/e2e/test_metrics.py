# SPDX-License-Identifier: Apache-2.0
"""What the server tells Prometheus: series grow with cards, not with sessions, and its
counters do not fall when a session ends."""

import re
import shutil
import urllib.request

from harness import Host
from harness.pool import SCHEDULER, SERVER

SPENT = ("gpu_seconds_total", "launches_total", "moved_bytes_total")


def series(text):
    return sorted(line.rpartition(" ")[0] for line in text.splitlines()
                  if not line.startswith("#"))


def of_cards(host, name):
    return sum(float(value) for value in re.findall(
        rf"^gpupool_server_card_{name}{{card=\"[^\"]*\"}} (\S+)$", host.metrics(), re.M))


def test_series_of_a_server_do_not_grow_with_its_sessions(case):
    host = Host(case)
    sessions = [host.pool.session(core=5, memory="64MiB")]
    sessions[0].run(case.programs / "vecadd")
    one, page = series(host.metrics()), series(host.metrics("/metric"))
    case.check([name for name in one if "card=" in name], f"series of cards: {one}")
    case.check(not [name for name in one if "session=" in name], f"series of sessions: {one}")
    for _ in range(9):
        sessions.append(host.pool.session(core=5, memory="64MiB"))
        sessions[-1].run(case.programs / "vecadd")
    case.equal(host.metric("sessions"), 10.0, "sessions of the server")
    case.equal(series(host.metrics()), one, "series with ten sessions")
    case.equal(of_cards(host, "sessions"), 10.0, "sessions of its card")
    case.equal(of_cards(host, "memory_given_bytes"), 10 * 64 * 2**20, "what they may have")
    # Each of them is on the page that nobody needs to scrape.
    more = series(host.metrics("/metric"))
    case.equal(len(more) - len(one), 10 * (len(page) - len(one)), "series of ten sessions")
    case.equal(len({re.search('session="([^"]*)"', name)[1] for name in more
                    if "session=" in name}), 10, "sessions of the page")


def test_counters_of_a_card_outlive_its_sessions_and_the_server(case):
    host = Host(case, "--state-dir", case.folder / "server-state", "--adopt-window", "60")
    session = host.pool.session(core=50, memory="256MiB")
    session.run(case.programs / "vecadd")
    before = {name: of_cards(host, name) for name in SPENT}
    for name, value in before.items():
        case.check(value > 0, f"{name} of a card that was used: {value}")
    session.close()
    case.wait_for(lambda: host.metric("sessions") == 0, "the session is gone")
    for name, value in before.items():
        case.check(of_cards(host, name) >= value, f"{name} fell when the session ended")
    # The next server takes over what the keeper holds, these sums too.
    host.restart()
    case.contains(host.pool.log(), "took over", "the log")
    for name, value in before.items():
        case.check(of_cards(host, name) >= value, f"{name} fell when the server began anew")


def test_counters_of_a_tenant_outlive_its_sessions(case):
    pool = case.pool()
    port = case.free_port()
    pool.restart(pool.pid(SCHEDULER), "--metrics-listen", f"127.0.0.1:{port}")

    def launches():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                    timeout=case.patience) as answer:
            found = re.findall(r"^gpupool_tenant_launches_total\{tenant=\"[^\"]*\"\} (\S+)$",
                               answer.read().decode(), re.M)
        return sum(float(value) for value in found)

    def used():
        pool.run(case.programs / "vecadd")
        case.wait_for(lambda: not pool.sessions(), "the session is gone")
        return launches()

    case.wait_for(lambda: [s["state"] for s in pool.status()["servers"]] == ["alive"],
                  "the server is back")
    first = used()
    case.check(first > 0, "what a session launched that has ended")
    case.check(used() > first, "the next session counts on")


# The names are those of an earlier GPU manager, one of which ends like a counter's.
FOREIGN = "container_gpu_memory_total non-counter metrics should not have"


def explained(case, page, text):
    """Before the first value of each metric, and only there, are its HELP and TYPE."""
    said = set()
    for line in text.splitlines():
        word = line.split()
        if line.startswith("# HELP"):
            case.check(len(word) > 4, f"{page}: {line}")
            case.check(word[2] not in said, f"{page}: {word[2]} is explained twice")
            said.add(word[2])
        elif not line.startswith("#"):
            name = re.match(r"\w+", line)[0]
            case.check(name in said, f"{page}: nobody explains {name}")
            case.check(f"# TYPE {name} " in text, f"{page}: {name} has no type")
    promtool = shutil.which("promtool")
    if promtool:
        (case.folder / "page").write_text(text)
        with open(case.folder / "page", "rb") as stdin:
            found = case.run([promtool, "check", "metrics"], stdin=stdin, status=None)
        words = [line for line in (found.out + found.err).splitlines() if line.strip()]
        case.equal([line for line in words if FOREIGN not in line], [], f"promtool on {page}")


def test_pages_say_what_each_metric_is_and_which_version_runs(case):
    pool = case.pool()
    ports = {}
    for program in (SCHEDULER, SERVER):
        ports[program] = case.free_port()
        pool.restart(pool.pid(program), "--metrics-listen", f"127.0.0.1:{ports[program]}")
    case.wait_for(lambda: [s["state"] for s in pool.status()["servers"]] == ["alive"],
                  "the server is back")
    session = pool.session(core=30, memory="64MiB")
    session.run(case.programs / "vecadd")
    version = pool.cli("--version").out.split()[1]
    for program, page in ((SCHEDULER, "metrics"), (SCHEDULER, "metric"),
                          (SCHEDULER, "metrics/cards"), (SERVER, "metrics"),
                          (SERVER, "metric")):
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[program]}/{page}",
                                    timeout=case.patience) as answer:
            text = answer.read().decode()
        explained(case, f"{program} /{page}", text)
        if page != "metrics/cards":
            case.contains(text, f'{program.replace("-", "_")}_build_info'
                          f'{{version="{version}",protocol="1"}} 1\n', page)
    session.close()
