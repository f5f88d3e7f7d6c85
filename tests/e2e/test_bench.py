# SPDX-License-Identifier: Apache-2.0
"""The benchmark measures what it says: its programs do real work, the raw side is
searched, and a row is missed only beyond its interval."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import report  # noqa: E402  (of the benchmark)
import rows  # noqa: E402
import stats  # noqa: E402


def test_realistic_rows_execute_every_kernel_that_they_launch(case):
    pool = case.pool()
    for link in ("tcp", "shm"):
        result = pool.run(case.build / "bench" / "real", "--check=1",
                          env={"GPUPOOL_TRANSPORT": link})
        words = result.out.split()
        case.equal(words[1], words[3], f"launches and what the kernels counted, {link}")
        case.check(int(words[1]) > 500, f"launches: {result.out}")


def test_the_search_writes_a_setting_that_the_rows_can_use(case):
    pool = case.pool(driver="null")
    for shm in (0, 1):
        path = case.folder / f"settings-{shm}"
        said = case.run([case.build / "bench" / "raw_search", f"--out={path}", f"--shm={shm}",
                         "--only=call"]).out
        case.contains(said, "settings tried", "what the search says")
        case.contains(path.read_text(), "call 0 wait:", "what it wrote")
        out = pool.run(case.build / "bench" / "fast", f"--shm={shm}", "--only=sync_call",
                       "--calls=300", f"--settings={path}",
                       env={"GPUPOOL_TRANSPORT": "shm" if shm else "tcp"}).out
        case.contains(out, "sync_call_raw_p99_us", "the raw side's slow calls")
        samples = [line.split() for line in out.splitlines() if line.startswith("SAMPLES")]
        case.equal([words[1] for words in samples], ["sync_call_ratio"], "samples")
        case.equal(len(samples[0]), 32, "a ratio of each slice")


def test_a_setting_that_is_none_is_refused_with_its_words(case):
    path = case.folder / "settings"
    path.write_text("call 0 wait:sometimes\n")
    result = case.run([case.build / "bench" / "fast", f"--settings={path}"],
                      status=2, env={"LD_LIBRARY_PATH": str(case.build / "lib" / "softgpu")})
    case.contains(result.err, "no setting: wait:sometimes", "what is wrong")


def test_a_row_is_missed_only_beyond_its_interval(case):
    rounds = [[1.05, 1.12, 1.13, 1.2], [1.06, 1.11, 1.12, 1.15], [1.08, 1.11, 1.2, 1.3]]
    low, high = stats.interval(rounds)
    value = stats.of_rounds(rounds)
    case.check(low < value < high, f"{low} {value} {high}")
    case.equal(stats.judge(value, True, value, low, high), "ok", "on the aim")
    case.equal(stats.judge(low, True, value, low, high), "open", "within the interval")
    case.equal(stats.judge(low - 0.001, True, value, low, high), "MISSED", "less is better")
    case.equal(stats.judge(high + 0.001, False, value, low, high), "MISSED", "more is better")
    case.equal(stats.judge(None, True, value, low, high), "", "no aim")


def test_the_page_of_a_run_says_what_is_missed_and_the_worst_round(case):
    name, words = next(iter(rows.CALLS)), next(iter(rows.CALLS.values()))[0]
    samples = {f"{name}_ratio_tcp": [[1.0, 1.0], [1.02, 1.02], [1.3, 1.3]],
               f"{name}_ratio_shm": [[2.0, 2.0], [2.1, 2.1], [2.5, 2.5]],
               "mixed_calls_per_s": [[5.2e6], [5.3e6], [4.1e6]]}
    values = {key: stats.of_rounds(rounds) for key, rounds in samples.items()}
    text = report.Page(values, samples, rows.AIMS).text("make bench", "gpupool 0", (0.5, 1.25))
    case.contains(text, "| what | TCP | shared memory | aim |", "the links that were measured")
    row, = [line for line in text.splitlines() if line.startswith(f"| {words} |")]
    tcp, shm, aim = row.strip("| ").split(" | ")[1:]
    case.contains(tcp, "1.02 (1", "the median, and the interval")
    case.contains(tcp, "; 1.3)", "the worst round")
    case.contains(shm, "**2.1** (2 to 2.5; 2.5)", "what is missed")
    case.equal(aim, "<= 1.1", "the aim")
    case.contains(text, "| 5,200,000 (4,100,000 to 5,300,000; 4,100,000) | >= 5,000,000 |", "a rate")
    case.contains(text, "ended: 0.5, 1.2.", "the load")
    case.equal(stats.interval([5.0]), (5.0, 5.0), "one value")


def test_a_raw_side_that_is_beaten_has_to_be_explained(case):
    better = {"sync_call_ratio_tcp": 0.8, "h2d_64mib_ratio_shm": 1.2, "d2h_64mib_ratio_tcp": 1.04,
              "launch_sync_ratio_tcp": 1.2}
    case.equal(sorted(rows.beaten(better, {})), ["h2d_64mib_ratio_shm", "sync_call_ratio_tcp"],
               "too good")
    wide = {"sync_call_ratio_tcp": [[0.8], [1.0], [0.8]]}
    case.equal(list(rows.beaten({"sync_call_ratio_tcp": 0.8}, wide)), [], "within the interval")


def test_make_bench_ends_with_what_the_table_says(case):
    """A whole run of one row: figures of every round, and the exit status of a miss."""
    (case.folder / "build").mkdir()
    for name in ("bin", "lib", "bench"):
        (case.folder / "build" / name).symlink_to(case.build / name)
    result = case.run([sys.executable, ROOT / "bench" / "run.py", "--build", case.folder / "build",
                       "--only", "sync_call", "--links", "tcp", "--rounds", "2"], status=None)
    case.contains(result.out, "synchronous call / raw round trip, tcp", "the table")
    case.contains(result.out, "95 % interval", "the table")
    case.contains(result.err, "searching the best raw link", "the search is shown")
    case.equal(result.status, 2 if "missed: " in result.out else 0, "exit status")
    found = json.loads((case.folder / "build" / "bench.json").read_text())
    for key in ("sync_call_ratio_tcp", "sync_call_p99_us", "sync_call_raw_p99_us",
                "sync_call_cpu_us", "sync_call_raw_cpu_us"):
        case.check(found[key] > 0, f"{key} in bench.json")


def test_sessions_program_holds_calls_and_counts_every_client(case):
    pool = case.pool()
    program = case.build / "bench" / "sessions"
    for options, calls in ((("--clients=3", "--late=1"), False),
                           (("--clients=3", "--busy-ms=100", "--launch=1"), True)):
        out = pool.run(program, *options).out
        values = {words[0]: words[1:] for words in map(str.split, out.splitlines())}
        samples = {line.split()[1]: [float(word) for word in line.split()[2:]]
                   for line in out.splitlines() if line.startswith("SAMPLES")}
        case.equal(values["failed"], ["0"], f"clients that failed: {out}")
        case.equal("STARTED" in values, not calls, "that the processes wait to attach")
        case.equal(len(samples["attach_ms"]), 3, "attachments")
        case.equal(all(number > 0 for number in samples["calls"]), calls, "calls of each")
        counted = sum(int(words[0]) for key, words in values.items()
                      if key.startswith("took_ns_"))
        case.equal(counted, sum(samples["calls"]), "calls by their duration")
    out = pool.run(program, "--churn=5", "--at-a-time=2", "--rate=100").out
    case.contains(out, "failed 0", "short programs")
