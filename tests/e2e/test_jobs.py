# SPDX-License-Identifier: Apache-2.0
"""`gpupool job`: programs that run with a slice of a card after their user has gone."""

import json
import os
import signal

from harness import proc


class Jobs:
    def __init__(self, case, cards=1):
        self.case = case
        self.pool = case.pool(servers=1, cards=cards)
        self.env = {"XDG_STATE_HOME": case.folder / "state"}

    def cli(self, *args, status=0):
        return self.case.run([self.case.build / "bin/gpupool", "job", *args], env=self.env,
                             status=status)

    def submit(self, *command, core=100):
        memory = [] if core == 100 else ["--memory", "64MiB"]
        return self.cli("submit", "--core", str(core), *memory, "--", *command).out.strip()

    def all(self):
        return {str(job["job"]): job for job in json.loads(self.cli("list", "--json").out)["jobs"]}

    def await_state(self, job, state):
        self.case.wait_for(lambda: self.all()[job]["state"] == state, f"job {job} is {state}")
        return self.all()[job]

    def waiting(self):
        return json.loads(self.pool.cli("queue", "--json").out)["waiting"]

    def sessions(self):
        return self.pool.status()["sessions"]


def test_job_runs_without_its_user_and_leaves_its_output_and_status(case):
    jobs = Jobs(case)
    job = jobs.submit("sh", "-c", "echo to $1; echo of $GPUPOOL_SESSION_FILE >&2; exit 7", "-",
                      "a word")
    done = jobs.await_state(job, "ended")
    case.equal(done["exit_status"], 7, "exit status")
    case.equal(done["command"][-1], "a word", "the command")
    case.contains(jobs.cli("logs", job).out, "to a word", "standard output")
    case.contains(jobs.cli("logs", job).out, "of /", "standard error")
    case.equal(jobs.cli("logs", "--lines", "1", job).out.count("\n"), 1, "the last line")
    row = jobs.cli("list").out.splitlines()[1].split()
    case.equal(row[:2] + row[3:4], [job, "ended", "7"], "the table")
    case.equal(jobs.sessions(), [], "sessions when it has ended")
    jobs.cli("delete", job)
    case.equal(jobs.all(), {}, "jobs after delete")
    case.equal(os.listdir(case.folder / "state/gpupool/jobs"), ["last"], "files after delete")


def test_number_of_a_deleted_job_is_given_to_no_other(case):
    jobs = Jobs(case)
    numbers = []
    for _ in range(3):
        numbers.append(jobs.submit("true"))
        jobs.await_state(numbers[-1], "ended")
        jobs.cli("delete", numbers[-1])
    case.equal(numbers, ["1", "2", "3"], "numbers of jobs that are deleted at once")
    # A folder of a version that kept no last number.
    jobs.submit("true")
    os.unlink(case.folder / "state/gpupool/jobs/last")
    case.equal(jobs.submit("true"), "5", "the number after the highest that is there")
    for number in ("4", "5"):
        jobs.await_state(number, "ended")


def test_jobs_wait_in_the_queue_and_follow_each_other(case):
    jobs = Jobs(case)
    first = jobs.submit("sh", "-c", "echo begun; sleep 600")
    case.equal(jobs.await_state(first, "running")["session"], jobs.sessions()[0]["name"],
               "the session of the first")
    second = jobs.submit("true")
    case.wait_for(lambda: jobs.waiting() == 1, "the second waits in the pool's queue")
    case.equal(jobs.all()[second]["state"], "waiting", "the second")
    case.equal(jobs.pool.cli("queue").out.splitlines()[1].split()[4:7], ["1", "100%", "all"],
               "what it waits for: a card with all of its memory")
    case.contains(jobs.cli("delete", second, status=1).err, "has not ended", "delete")
    jobs.cli("kill", first)
    case.equal(jobs.all()[first]["exit_status"], 143, "status of what was killed")
    case.equal(jobs.await_state(second, "ended")["exit_status"], 0, "then the second")
    case.contains(jobs.cli("kill", first, status=1).err, "has ended already", "kill again")


def test_wait_ends_as_the_job_does(case):
    jobs = Jobs(case)
    first = jobs.submit("sh", "-c", "sleep 1; exit 7")
    second = jobs.submit("true")
    case.equal(jobs.cli("wait", second).status, 0, "one that waits in the queue")
    done = jobs.cli("wait", first, status=7)
    case.contains(done.err, f"job {first} has ended with exit status 7", "how it ended")
    long = jobs.submit("sleep", "300")
    done = jobs.cli("wait", "--timeout", "1s", long, status=124)
    case.contains(done.err, f"job {long} has not ended", "what is not over")
    jobs.cli("kill", long)
    jobs.cli("wait", long, status=143)
    jobs.cli("wait", "77", status=1)
    case.equal(jobs.pool.run("true", env=jobs.env).status, 0, "the card is free")
    case.equal(case.run([case.build / "bin/gpupool", "complete", "jobs"], env=jobs.env).out.split(),
               [first, second, long], "numbers for the shell")


def test_killed_job_leaves_neither_place_nor_process(case):
    jobs = Jobs(case)
    stubborn = jobs.submit("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done")
    case.wait_for(lambda: jobs.cli("logs", stubborn).out.strip().isdigit(), "it runs")
    pid = int(jobs.cli("logs", stubborn).out)
    waiting = jobs.submit("true")
    jobs.await_state(waiting, "waiting")
    case.wait_for(lambda: jobs.waiting() == 1, "it is in the queue")
    jobs.cli("kill", waiting)
    case.wait_for(lambda: jobs.waiting() == 0, "it is not in the queue any more")
    jobs.cli("kill", "--grace", "1s", stubborn)
    case.equal(jobs.all()[stubborn]["exit_status"], 137, "status of what would not end")
    case.wait_for(lambda: not proc.is_alive(pid), "its program is gone")
    case.wait_for(lambda: not jobs.sessions(), "its session is gone")


def test_job_whose_processes_were_killed_is_lost(case):
    jobs = Jobs(case)
    job = jobs.submit("sleep", "600")
    folder = jobs.await_state(job, "running")["folder"]
    with open(f"{folder}/processes", encoding="utf-8") as noted:
        guardian = int(noted.readline().split()[0])
    os.killpg(guardian, signal.SIGKILL)
    case.equal(jobs.await_state(job, "lost")["exit_status"], None, "exit status")
    case.contains(jobs.cli("kill", job, status=1).err, "has ended already", "kill")
    jobs.cli("delete", job)


def test_wrong_words_are_answered(case):
    jobs = Jobs(case)
    case.contains(jobs.cli("frobnicate", status=2).err, "submit, list, wait, logs, kill", "a verb")
    case.contains(jobs.cli("logs", "x", status=2).err, "the number of a job", "a number")
    case.contains(jobs.cli("logs", "9", status=1).err, "no job 9", "a job")
    case.contains(jobs.cli("submit", status=2).err, "job submit: which program?", "no program")
    case.contains(jobs.cli("submit", "--core", "30", "--memory", "1GiB", "no-such-program",
                           status=127).err, "no-such-program", "the program")
    case.equal(jobs.all(), {}, "jobs")
    for verb in ("submit", "list", "logs", "kill", "delete"):
        case.contains(jobs.cli(verb, "--help").out, f"gpupool job {verb}", "help")
    case.contains(jobs.cli("submit", "--core", "30", "--memory", "64MiB", "--dry-run").out,
                  "chosen", "--dry-run")


def test_job_that_cannot_run_is_refused_before_it_gets_a_number(case):
    jobs = Jobs(case)
    done = jobs.cli("submit", "--core", "150", "true", status=2)
    case.contains(done.err, "gpupool: job submit: ", "a core that no card has")
    for words, *options, status in (
            ("gpupool: job submit: --card", "--card", "GPU-ffff", 2),
            ("gpupool: job submit: scheduler not reachable", "--scheduler", "127.0.0.1:1", 4)):
        case.contains(jobs.cli("submit", *options, "true", status=status).err, words, str(options))
    case.contains(jobs.cli("submit", "no-such-program", status=127).err,
                  "gpupool: job submit: no-such-program: no such program", "a program")
    case.equal(jobs.cli("list").out, "no jobs\n", "jobs")
    # What fits later waits.
    first = jobs.submit("sleep", "600")
    jobs.await_state(first, "running")
    second = jobs.submit("true")
    jobs.cli("kill", first)
    jobs.await_state(second, "ended")


def test_logs_say_how_the_job_ended_and_the_list_its_name(case):
    jobs = Jobs(case)
    job = jobs.cli("submit", "--name", "night run", "--", "sh", "-c", "echo out; exit 7").out.strip()
    case.equal(jobs.await_state(job, "ended")["name"], "night run", "the name")
    case.contains(jobs.cli("list").out, "night run", "the table")
    done = jobs.cli("logs", job)
    case.contains(done.out, "out\n", "what it wrote")
    case.equal(done.err, f"gpupool: job {job} has ended with exit status 7\n", "how it ended")
    case.contains(jobs.cli("logs", "-n", "foo", job, status=2).err, "a number of lines is wanted", "-n foo")
    case.check("fail at once" not in jobs.cli("submit", "--help").out, "a job without --wait waits")
