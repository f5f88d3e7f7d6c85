# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi` in a session: the slice, in the layout that people and scripts know."""

import csv
import io
import re
import xml.etree.ElementTree

MIB = 1 << 20


def smi(session, *args, status=0, env=None):
    return session.run("nvidia-smi", *args, status=status,
                       env={"PATH": session.path, **(env or {})})


def begin(case, **options):
    """A session with its PATH, which `gpupool run` gives its program."""
    pool = case.pool(servers=1, cards=2)
    seen = pool.run("sh", "-c", 'echo "$PATH"', **options)
    session = pool.session(**options)
    session.path = seen.out.strip()
    return session


def rows(text):
    return [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text))]


def test_table_shows_the_limit_and_what_the_session_uses_of_it(case):
    session = begin(case, core=30, memory="256MiB")
    shell = session.cudash().begin()
    shell.ok("alloc", 32 * MIB)
    out = smi(session).out
    used = re.search(r"\|\s+(\d+)MiB /\s+(\d+)MiB \|", out)
    case.check(used, f"no column of memory:\n{out}")
    case.equal(int(used.group(2)), 256, "the slice's memory in MiB")
    case.check(32 <= int(used.group(1)) < 256, f"{used.group(1)} MiB are used")
    case.check(re.search(r"CUDA Version: \d+\.\d+", out), f"no CUDA version:\n{out}")
    case.check(re.search(r"Driver Version: \d+\.\d+\.\d+ ", out), f"no driver version of numbers:\n{out}")
    widths = {len(line) for line in out.split("\n") if line[:1] in ("|", "+")}
    case.equal(widths, {91}, "widths of the table's lines")
    case.contains(out, str(shell.process.pid), "the process that holds the memory")


def test_queries_give_the_fields_that_scripts_parse(case):
    session = begin(case, core=30, memory="256MiB")
    shell = session.cudash().begin()
    shell.ok("alloc", 32 * MIB)
    fields = "index,uuid,utilization.gpu,memory.total,memory.used,memory.free," \
             "driver_version,name,gpu_serial,display_active,display_mode,temperature.gpu"
    table = rows(smi(session, f"--query-gpu={fields}", "--format=csv").out)
    case.equal([cell.split(" [")[0] for cell in table[0]], fields.split(","), "heading")
    case.equal(len(table), 2, "a heading and one card")
    card = dict(zip(fields.split(","), table[1]))
    case.equal(card["memory.total"], "256 MiB", "with its unit")
    case.equal(card["gpu_serial"], "[N/A]", "what a slice does not say")
    total, used, free = (int(word) for word in smi(
        session, "--query-gpu=memory.total,memory.used,memory.free",
        "--format=csv,noheader,nounits").out.split(","))
    case.equal(total, 256, "without unit and heading")
    case.check(used >= 32 and used + free in (255, 256), f"{used} used, {free} free")
    case.contains(smi(session, "-L").out, f"(UUID: {card['uuid']})", "the list")
    apps = rows(smi(session, "--query-compute-apps=pid,process_name,used_memory",
                    "--format=csv,noheader").out)
    case.equal([row[0] for row in apps], [str(shell.process.pid)], "processes")
    case.contains(apps[0][1], "cudash", "its name")
    case.check(int(apps[0][2].split()[0]) >= 32, f"its memory: {apps}")


def test_details_are_text_and_well_formed_xml_with_the_same_values(case):
    session = begin(case, core=30, memory="256MiB")
    text = smi(session, "-q").out
    tree = xml.etree.ElementTree.fromstring(smi(session, "-q", "-x").out)
    case.equal(tree.tag, "nvidia_smi_log", "the root")
    case.equal(tree.find("gpu/fb_memory_usage/total").text, "256 MiB", "memory")
    case.check(re.search(r"FB Memory Usage\n\s+Total\s+: 256 MiB", text), f"text:\n{text}")
    uuid = tree.find("gpu/uuid").text
    case.contains(text, uuid, "identity")
    chosen = smi(session, "-q", "-x", "-i", uuid).out
    case.equal(len(xml.etree.ElementTree.fromstring(chosen).findall("gpu")), 1, "by UUID")


def test_loops_end_after_their_count_and_monitors_have_their_headings(case):
    session = begin(case, core=30, memory="256MiB")
    out = smi(session, "--query-gpu=index", "--format=csv", "-lms", "20", "-c", "3").out
    case.equal(out.split(), ["index", "0", "0", "0"], "one heading, three rounds")
    lines = smi(session, "dmon", "-c", "2").out.strip().split("\n")
    case.equal([line[0] for line in lines], ["#", "#", " ", " "], "two headings, two rounds")
    case.contains(smi(session, "pmon", "-c", "1").out, "command", "pmon")
    case.contains(smi(session, "topo", "-m").out, "GPU0", "topo")


def test_loop_in_seconds_repeats_rows_and_queries(case):
    session = begin(case, core=30, memory="256MiB")
    done = smi(session, "--query-gpu=index,memory.total", "--format=csv,noheader", "-l", "1",
               "-c", "2")
    case.equal(done.out.split("\n")[:2], ["0, 256 MiB"] * 2, "two rounds")
    case.check(done.seconds >= 1, f"both within {done.seconds:.1f} s")
    done = smi(session, "--loop=1", "-c", "2", "--query-compute-apps=pid", "--format=csv")
    case.equal(done.out.split(), ["pid"], "nobody uses it, in two rounds")


def test_cards_are_chosen_by_number_uuid_and_bus_in_the_order_asked(case):
    session = begin(case, core=30, memory="256MiB", options=["--cards", "2"])
    fields = ["--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader"]
    first, second = rows(smi(session, *fields).out)
    case.equal([first[0], second[0]], ["0", "1"], "two cards")
    for chosen, wanted in ((f"0,{second[1]}", ["0", "1"]), (second[1], ["1"]),
                           (first[2], ["0"]), ("1", ["1"])):
        seen = rows(smi(session, *fields, "-i", chosen).out)
        case.equal([row[0] for row in seen], wanted, f"-i {chosen}")
    missing = f"{second[1][:-4]}0000"
    case.equal([row[0] for row in rows(smi(session, *fields, "-i", f"0,{missing}").out)], ["0"],
               "those of a list that are there")
    case.contains(smi(session, "-i", missing, status=6).err, "No devices", "none of it is there")


def test_process_monitor_shows_who_holds_how_much(case):
    session = begin(case, core=30, memory="256MiB")
    idle = smi(session, "pmon", "-c", "1").out.strip().split("\n")
    case.equal(idle[2].split(), ["0"] + ["-"] * 8, "nobody")
    shell = session.cudash().begin()
    shell.ok("alloc", 32 * MIB)
    lines = smi(session, "pmon", "-c", "2").out.strip().split("\n")
    case.equal([line.split()[:3] for line in lines[:2]],
               [["#", "gpu", "pid"], ["#", "Idx", "#"]], "headings")
    for line in lines[2:]:
        case.equal(line.split(), ["0", str(shell.process.pid), "C", "32", "-", "-", "-", "-",
                                  "cudash"], "the process")
    case.equal(len(lines), 4, "two rounds below two headings")


def test_wrong_questions_are_answered_in_words(case):
    session = begin(case, core=30, memory="256MiB")
    for args, status, words in (
            (["--query-gpu=nonsense", "--format=csv"], 2, '"nonsense" is not a valid field'),
            (["--query-gpu=index"], 2, "--format=csv"),
            (["--query-gpu=index", "--format=json"], 2, "csv[,noheader][,nounits]"),
            (["--format=noheader", "-L"], 2, "csv is the only format"),
            (["-i", "7"], 6, "No devices were found"),
            (["-l", "often"], 2, "a number from 0"),
            (["nvlink"], 2, "not carried here"),
            (["-x"], 2, "-x goes with -q")):
        case.contains(smi(session, *args, status=status).err, words, f"smi {args}")


def test_outside_a_session_it_names_the_way_into_one(case):
    done = case.run([case.build / "bin" / "gpupool", "smi"], status=9)
    case.contains(done.err, "gpupool run --core 10", "the remedy")


def test_another_nvidia_smi_in_the_path_goes_first(case):
    folder = case.folder / "own"
    folder.mkdir()
    (folder / "nvidia-smi").write_text("#!/bin/sh\necho own\n")
    (folder / "nvidia-smi").chmod(0o755)
    pool = case.pool()
    done = pool.run("nvidia-smi", env={"PATH": f"{folder}:/usr/bin:/bin"})
    case.equal(done.out.strip(), "own", "which one ran")
    done = pool.run("nvidia-smi", "-L", env={"PATH": "/usr/bin:/bin"})
    case.contains(done.out, "GPU 0:", "ours, where there is no other")
