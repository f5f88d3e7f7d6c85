# SPDX-License-Identifier: Apache-2.0
"""The command line: help, version, up and down, status, doctor."""

import json
import pathlib
import re

SUBCOMMANDS = ("up", "down", "init", "run", "job", "status", "servers", "sessions", "events",
               "describe", "get", "queue", "usage", "pools", "top", "smi", "explain", "drain", "cordon", "uncordon",
               "forget", "close", "doctor", "logs", "kube", "context", "completion", "version")
EVERYWHERE = {"help", "version"}


def test_every_subcommand_explains_itself(case):
    gpupool = case.build / "bin" / "gpupool"
    overview = case.run([gpupool, "--help"]).out
    for name in SUBCOMMANDS:
        case.contains(overview, name, "gpupool --help")
        text = case.run([gpupool, name, "--help"]).out
        case.check("usage" in text.lower(), f"gpupool {name} --help has no usage line:\n{text}")


OPTION_RE = re.compile(r"^  (?:-(\w), |    )--([a-z][a-z0-9-]*)(?:\[=(\S+)\]| (\S+))?", re.M)
JOB_VERBS = ("submit", "list", "wait", "logs", "kill", "delete")
PAGES = {
    "gpupool.1": [("gpupool", name) for name in SUBCOMMANDS] + [
        ("gpupool", "job", verb) for verb in JOB_VERBS],
    "gpupool-scheduler.8": [("gpupool-scheduler",), ("gpupool-scheduler", "migrate")],
    "gpupool-server.8": [("gpupool-server",)],
    "gpupool-kube.8": [("gpupool-kube", name)
                       for name in ("controller", "extender", "node-plugin", "webhook")],
}


def options_of(text):
    """What --help lists: [(letter, name, value)], the empty string where there is none."""
    return [(letter, name, optional or value)
            for letter, name, optional, value in OPTION_RE.findall(text)
            if name not in EVERYWHERE]


def manual_page(case, page):
    return (case.data.parents[1] / "docs" / "man" / page).read_text(encoding="utf-8")


def items_of_page(text):
    """What a page says of each option: of its .It and the lines up to the next one."""
    items = {}
    for item in re.split(r"^\.(?:It|S[hs]) ", text, flags=re.M)[1:]:
        for name in re.findall(r"Fl -([a-z][a-z0-9-]*)", item.split("\n", 1)[0]):
            items[name] = items.get(name, "") + item
    return items


def test_manual_pages_name_every_option_and_no_other(case):
    programs = case.build / "bin"
    everywhere = manual_page(case, "gpupool.7")
    every = set()
    named = {}
    for page, commands in PAGES.items():
        text = manual_page(case, page)
        items = items_of_page(text)
        # mdoc writes --cards as `Fl -cards`, and further ones after a comma.
        flat = re.sub(r" , -(?=[a-z])", " , --", re.sub(r"\bFl -(?=[a-z])", "--", text))
        named[page] = set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", flat)) - EVERYWHERE
        for program, *args in commands:
            name = " ".join((program, *args))
            said = case.run([programs / program, *args, "--help"]).out
            case.equal([line for line in said.split("\n") if len(line) > 88], [], f"long lines of {name} --help")
            options = options_of(said)
            every |= {option for _, option, _ in options}
            for letter, option, value in options:
                case.check(option in named[page], f"{page} does not name --{option} of {name}")
                case.check(not letter or re.search(rf"Fl {letter}\b", text),
                           f"{page} does not name -{letter} of {name}")
                for word in re.findall(r"(?<![\w.])[a-z]+(?![\w.])", value) if "|" in value else ():
                    case.contains(items.get(option, ""), word, f"--{option} in {page}")
            for variable in set(re.findall(r"GPUPOOL_[A-Z_]+", said)):
                case.contains(text + everywhere, variable, f"{page} and gpupool.7, of {name}")
    for page, options in named.items():  # pages speak of each other's programs, too
        case.equal(sorted(options - every), [], f"options in {page} that no program has")


def test_manual_pages_are_those_of_the_programs(case):
    script = case.data.parents[1] / "docs" / "man" / "pages.py"
    case.run([script, "--build", case.build, "--check"])
    source = case.folder / "gpupool.1.in"
    for text, words in (("@options gpupool top\n@nosuch\nIt does.\n@end\n", "no option --nosuch"),
                        ("@options gpupool top\n@without state\n@end\n", "no option --state"),
                        ("@options gpupool top\n", "no @end"), ("@count\n", "outside of a list")):
        source.write_text(text, encoding="utf-8")
        done = case.run([script, "--build", case.build, "--folder", case.folder], status=1)
        case.contains(done.err, words, f"what is said of\n{text}")
        case.check(not source.with_suffix("").exists(), "a page was written all the same")
    source.write_text("x\n@options gpupool top, gpupool queue\n@count interval\nProse.\n@end\n",
                      encoding="utf-8")
    case.run([script, "--build", case.build, "--folder", case.folder])
    page = source.with_suffix("").read_text(encoding="utf-8")
    case.contains(page, "Fl n , Fl -count Ar n , Fl d , Fl -interval Ar s\nProse.\n", "a group")
    case.contains(page, "Fl -tenant Ar name\nOnly this tenant's.\nOnly for\n.Cm queue .\n", "of one")


# `gpupool run --core 30 -- PROGRAM`: the program, its further words, and nothing of PROGRAM's.
COMMAND_RE = re.compile(r"(?:^|[ |(])(gpupool(?:-server|-scheduler|-kube)?)((?: [a-z][a-z-]*)*)((?: [^`|;]*)?)")


def documents(case):
    """(file, line number, command): what stands in backquotes or is indented, up to ` -- `."""
    for path in [case.data.parents[1] / "README.md", *(case.data.parents[1] / "docs").glob("*.md"),
                 case.data.parents[1] / "deploy" / "README.md"]:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            for code in re.findall(r"`([^`]+)`", line) + ([line.strip()] if line.startswith("    ") else []):
                for program, words, rest in COMMAND_RE.findall(code.split(" -- ")[0]):
                    yield f"{path.name}:{number}: {code}", program, words.split(), rest


def test_documents_name_commands_and_options_that_exist(case):
    """`gpupool CMD --option` anywhere in the documents; the long form of an option only."""
    helps, n = {}, 0

    def options(*args):
        if args not in helps:
            done = case.run([case.build / "bin" / args[0], *args[1:], "--help"], status=None)
            helps[args] = set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", done.out)) if not done.status else None
        return helps[args]

    def of_command(program, words):
        """The options of a command; with it, of what it runs or shows."""
        known = options(program, *words[:1])
        if known and words[0] in ("doctor", "job"):
            known = known | options("gpupool", "run")
        if known and words[0] == "job":
            known = known.union(*(options("gpupool", "job", verb) for verb in JOB_VERBS))
        return known

    for where, program, words, rest in documents(case):
        if "-->" in rest or (program == "gpupool" and not words) or "/" + program in where or program + ":" in where:
            continue
        if program == "gpupool-kube" and not words or words[:1] == ["complete"]:
            continue  # named, not called; of shells alone
        words = words if program in ("gpupool", "gpupool-kube") else words[:1] if words == ["migrate"] else []
        known = of_command(program, words) if words else options(program)
        case.check(known is not None, f"{where}\nnames a command that there is not")
        for name in re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", rest):
            case.check(name in known, f"{where}\nnames --{name}, which {program} {' '.join(words[:1])} has not")
            n += 1
    case.check(n > 30, f"only {n} options were found in the documents")


def test_unknown_words_are_refused_with_a_hint(case):
    gpupool = case.build / "bin" / "gpupool"
    for args in (["stauts"], ["run", "--cores", 3, "--", "true"], ["up", "--servers", "x"], []):
        done = case.run([gpupool, *args], status=None)
        case.check(done.status not in (0, None), f"{args} was accepted:\n{done}")
        case.check(done.err.strip(), f"{args} was refused without a word")
        case.check(len(done.err.split("\n")) < 40, f"{args}: a flood of words")


def test_output_that_cannot_be_written_is_a_failure(case):
    """Half a list on a full disk must not look like a whole one."""
    pool = case.pool()
    gpupool = case.build / "bin" / "gpupool"
    for words in ("version", "--help", "status", "status -o json", "sessions -o yaml", "events",
                  "get cards -o json", "queue -o json", "usage", "explain --core 10 --memory 1MiB",
                  "explain --core 10 --memory 1MiB -o json", "job list -o json", "completion bash"):
        done = case.run(["sh", "-c", f"exec {gpupool} {words} >/dev/full"], env=pool.env, status=1)
        case.contains(done.err, "standard output cannot be written: ", words)
        case.equal(len(done.err.splitlines()), 1, f"lines about it of {words}")
    case.run(["sh", "-c", f"exec {gpupool} version >&-"], env=pool.env, status=1)


def test_daemons_explain_themselves(case):
    for name in ("gpupool-scheduler", "gpupool-server"):
        program = case.build / "bin" / name
        case.check("usage" in case.run([program, "--help"]).out.lower(), f"{name} --help")
        done = case.run([program, "--no-such-flag"], status=2)
        case.contains(done.err, "no-such-flag", "which flag")


def test_scheduler_takes_options_from_flags_environment_and_file(case):
    program = case.build / "bin" / "gpupool-scheduler"
    state, ready, config = (case.folder / name for name in ("state", "ready", "config"))
    state.mkdir()
    config.write_text(f"# a pool\nlisten = 127.0.0.1:0\nstate-dir = {state}\n"
                      "placement = spread\nlease-ms = 4711\n", encoding="utf-8")
    scheduler = case.spawn([program, "--config", config, "--ready-file", ready,
                            "--allow-anonymous", "client"],
                           env={"GPUPOOL_SCHEDULER_LEASE_MS": "4712"})
    case.wait_for(ready.exists, "the scheduler listens")
    done = case.run([case.build / "bin" / "gpupool", "status", "--json"],
                    env={"GPUPOOL_SCHEDULER": ready.read_text(encoding="utf-8").strip()})
    said = json.loads(done.out)
    case.equal((said["placement"], said["lease_ms"]), ("spread", 4712), "file, environment")
    scheduler.terminate()
    scheduler.wait(case.patience)
    with open(config, "a", encoding="utf-8") as file:
        file.write("placment = binpack\n")
    for args, env, words in (
            (["--config", config], {}, f"{config}:6: unknown option --placment; did you mean --placement?"),
            (["--placement", "best"], {}, "--placement best: binpack, spread or fgd is wanted"),
            (["--lease", "5"], {}, "--lease-ms 5: a number from 1000"),
            ([], {"GPUPOOL_SCHEDULER_RATE_OPENS": "x"},
             "GPUPOOL_SCHEDULER_RATE_OPENS=x: a number from 0"),
            (["migrate", "--to", "file:x"], {}, "--to file:x: etcd:URL,... is wanted")):
        case.contains(case.run([program, *args], status=2, env=env).err, words, f"{args} {env}")


def test_kubernetes_daemons_take_options_from_flags_and_environment(case):
    program = case.build / "bin" / "gpupool-kube"
    for args, env, words in (
            (["controller", "--lease-s", "2"], {}, "--lease-s 2: a number from 3 to 3600"),
            (["controller"], {}, "--scheduler HOST:PORT or GPUPOOL_SCHEDULER is needed"),
            (["webhook"], {}, "--scheduler HOST:PORT (or GPUPOOL_SCHEDULER) and --image"),
            (["controller"], {"GPUPOOL_SCHEDULER": "h:1"}, "no API server"),
            (["extender", "--placement", "x"], {}, "--placement x: binpack or spread is wanted"),
            (["webhook", "--listn", "y"], {}, "--listn; did you mean --listen?"),
            (["webhook"], {"GPUPOOL_KUBE_CERT_HOURS": "0"}, "GPUPOOL_KUBE_CERT_HOURS=0: a number"),
            (["node-plugin", "extra"], {}, "extra: unexpected argument")):
        case.contains(case.run([program, *args], status=2, env=env).err, words, f"{args} {env}")
    case.contains(case.run([program, "webhok"], status=2).err, "did you mean webhook?", "a wrong command")


def test_status_shows_cards_sessions_and_owner(case):
    pool = case.pool(servers=2, cards=2)
    status = pool.status()
    case.equal(len(status["servers"]), 2, "servers")
    case.equal([len(server["cards"]) for server in status["servers"]], [2, 2], "cards")
    case.equal(status["sessions"], [], "sessions")
    session = pool.session(core=30, memory="1GiB")
    name = session.field("session")
    case.equal([item["name"] for item in pool.sessions()], [name], "sessions")
    text = pool.cli("status").out
    case.contains(text, name, "the table names the session")
    case.contains(pool.cli("sessions").out, name, "gpupool sessions")
    for server in status["servers"]:
        case.contains(text, server["name"], "the table names the server")
        case.contains(pool.cli("servers").out, server["name"], "gpupool servers")
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.equal(pool.sessions(), [], "sessions after the end")


def test_doctor_is_content_with_a_good_pool_and_names_what_is_missing(case):
    pool = case.pool()
    done = pool.cli("doctor")
    case.equal(done.status, 0, "gpupool doctor on a running pool")
    files = any(pathlib.Path("/dev", name).exists() for name in ("nvidiactl", "nvidia0", "dxg"))
    case.equal("touch /dev/nvidiactl" in done.out, not files, "what JAX lacks without such a file")
    pool.stop()
    done = pool.cli("doctor", status=None)
    case.check(done.status not in (0, None), "doctor is content without a pool")
    case.contains((done.out + done.err).lower(), "scheduler", "what is missing")


def test_doctor_lists_what_a_program_met(case):
    pool = case.pool()
    done = pool.cli("doctor", "--core", 30, "--memory", "64MiB", "--",
                    case.programs / "features")
    case.contains(done.out, "features: graph: ok\n", "the program's own output")
    case.contains(done.out, "warn  call: cuDeviceGet CUDA_ERROR_INVALID_DEVICE (101) once: "
                  "the session has no such device\n        it has as many as slices",
                  "a call that failed, with reason and remedy")
    case.check("  refused: cu" not in done.out, f"a call was refused:\n{done.out}")
    done = pool.cli("doctor", "--", case.programs / "vecadd", 2)
    case.contains(done.out, "ok    program: no CUDA call was refused, none failed\n", "vecadd")
    done = pool.cli("doctor", "--", "sh", "-c", "exit 7", status=1)
    case.contains(done.out, "FAIL  program: exit status 7\n", "a program that fails")
    case.contains(done.out, "it never loaded gpupool's libcuda.so.1", "a program without CUDA")


def test_doctor_counts_the_round_trips_of_a_program(case):
    pool = case.pool()
    done = pool.cli("doctor", "--json", "--trips", "--", case.programs / "vecadd", 2)
    trips = {t["call"]: t for t in json.loads(done.out)["trips"]}
    case.equal(trips["cuLaunchKernel"]["trips"], 0, "launches that waited")
    case.check(trips["cuLaunchKernel"]["calls"] > 0, "launches")
    case.equal(trips["cuMemAlloc_v2"]["trips"], trips["cuMemAlloc_v2"]["calls"], "allocations")
    done = pool.cli("doctor", "--trips", "--", case.programs / "vecadd", 2)
    case.contains(done.out, "CALL", "the table's head")
    case.check(re.search(r"\ncuMemAlloc_v2 +3 +3\n", done.out), f"allocations:\n{done.out}")
    case.check("cuLaunchKernel" not in done.out, "a call that does not wait")
    case.contains(done.out, "round trips\n", "their sum")


def test_doctor_lists_refused_calls_as_json(case):
    pool = case.pool()
    done = pool.cli("doctor", "--json", "--",
                    case.build / "tests" / "programs" / "negative")
    findings = json.loads(done.out)["findings"]
    refused = {f["call"]: f for f in findings if f.get("refused")}
    listed = [line.split("`")[1] for line in
              (case.data.parents[1] / "docs" / "api-coverage.md").read_text()
              .partition("## Refused")[2].partition("## Local")[0].splitlines()
              if line.startswith("| `")]
    base = {name.removesuffix("_ptsz") for name in listed}
    case.equal(set(refused), base, "refused calls, as docs/api-coverage.md has them")
    for call, finding in refused.items():
        # Objects that none of them makes have no handle, and a wrong range is a wrong one.
        strange = 400 if "Graphics" in call or "External" in call else \
            1 if call == "cuMemGetHandleForAddressRange" else 801
        case.check(finding["code"] in (801, strange), f"{call}: {finding}")
        case.equal(finding["finding"], "warning", call)
        case.check(finding["remedy"], f"{call}: no remedy")
    failed = [f for f in findings if f.get("code") == 400]
    case.check(len(failed) > 50, f"only {len(failed)} calls with an invalid handle")
    case.contains(done.err, "637 calls, 0 took wrong arguments", "the program's own output")


def test_doctor_knows_what_a_killed_program_met(case):
    words = ("import ctypes, os; lib = ctypes.CDLL('libcuda.so.1');"
             "lib.cuInit(7); lib.cuInit(8); os.kill(os.getpid(), 9)")
    done = case.pool().cli("doctor", "--", *case.interpreter(), "-c", words, status=1)
    case.contains(done.out, "call: cuInit CUDA_ERROR_INVALID_VALUE (1) 2 times", "the calls")
    case.contains(done.out, "FAIL  program: exit status 137\n", "how it ended")


def test_second_up_and_second_down_say_what_is(case):
    pool = case.pool()
    done = pool.cli("up", status=None)
    case.check("already" in done.out + done.err, f"a second up:\n{done}")
    pool.cli("down")
    done = pool.cli("down", status=None)
    case.check((done.out + done.err).strip(), "a second down says nothing")


def test_help_of_up_says_where_the_logs_are(case):
    folder = case.folder / "elsewhere"
    pool = case.pool(servers=2, env={"GPUPOOL_RUN_DIR": str(folder)})
    text = " ".join(pool.cli("up", "--help").out.split())
    case.contains(text, "Files and logs are in $GPUPOOL_RUN_DIR, else", "where they are")
    named = re.findall(r"\S+\.log\b", text)
    case.equal(sorted(named), ["pool.d/NAME.log", "pool.d/scheduler.log"], "the logs named")
    names = [row["name"] for row in pool.status()["servers"]]
    case.equal(len(names), 2, "servers")
    for name in ["scheduler"] + names:
        log = folder / named[0].replace("NAME", name)
        case.check(log.is_file(), f"{log} is there")


def test_manual_pages_are_well_formed(case):
    mandoc = case.need_tool("mandoc")
    pages = sorted((case.data.parents[1] / "docs" / "man").glob("*.[1-8]"))
    case.check(pages, "there are no manual pages")
    done = case.run([mandoc, "-T", "lint", "-W", "warning", *pages], status=None)
    case.equal(done.status, 0, f"mandoc -T lint:\n{done}")


def test_run_forwards_a_signal_and_closes_its_session(case):
    pool = case.pool()
    process = pool.spawn("sh", "-c", 'trap "exit 5" TERM; echo ready; while :; do sleep 1; done')
    case.equal(process.stdout.readline(), "ready\n", "the program")
    process.terminate()
    case.equal(process.wait(case.patience), 5, "exit status after SIGTERM")
    case.equal(pool.sessions(), [], "sessions after the end")
