/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool job: programs that run with a slice of a card after their user has gone.
 *
 * A job is two processes.  The runner does what `gpupool run` does; the guardian, its
 * parent, leads a session of its own without a terminal, and notes the exit status.
 * Nobody else needs to know of a job: the pool has its request in the queue, and then
 * its session, as those of any other.
 */
#include "cli.h"
#include "cli_explain.h"
#include "cli_jobs.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_run.h"
#include "cli_table.h"
#include "gp_command.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a program has left behind has so long to end. */
#define REST_NS (5 * GP_NS_PER_S)

/* ------------------------------------------------------------------- submit -- */

static void
note_session(void *arg, const char *session)
{
    const struct cli_job *job = arg;
    struct gp_err err = {0};
    char text[80];
    int r;

    snprintf(text, sizeof(text), "%s\n", session);
    r = cli_job_note(job, "session", text, &err);
    if (r < 0)
        cli_fail(0, "job: %s", gp_err_msg(&err, r));
}

static int
exit_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
start_time(struct cli_process *process, pid_t pid)
{
    process->pid = pid;
    if (cli_process_start(pid, &process->start) < 0)
        process->pid = 0;
}

/* What the program has left behind, which became the guardian's, ends with it. */
static void
end_rest(void)
{
    uint64_t deadline = gp_now_ns() + REST_NS;
    pid_t pid;

    kill(0, SIGTERM);
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0 ||
           (pid == 0 && gp_now_ns() < deadline))
        if (!pid)
            gp_sleep_ns(10 * GP_NS_PER_MS);
    if (!pid)
        kill(0, SIGKILL); /* the guardian, too */
}

/* The guardian; does not return.  It must not die of what ends the runner. */
static void
guard(struct cli_job *job, struct cli_run_request *request)
{
    struct gp_err err = {0};
    int status = 0, r;
    char text[16];
    pid_t pid;

    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid = fork();
    if (pid == 0)
        _exit(cli_run_program(request));
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (pid < 0)
        _exit(cli_fail(CLI_FAILED, "job: fork: %s", strerror(errno)));
    start_time(&job->guardian, getpid());
    start_time(&job->runner, pid);
    r = cli_job_note_processes(job, &err);
    if (r < 0)
        cli_fail(0, "job: %s", gp_err_msg(&err, r));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    snprintf(text, sizeof(text), "%d\n", exit_of(status));
    r = cli_job_note(job, "exit", text, &err);
    end_rest();
    _exit(r < 0 ? cli_fail(CLI_FAILED, "job: %s", gp_err_msg(&err, r)) : CLI_OK);
}

static int
redirect(const struct cli_job *job, struct gp_err *err)
{
    CLEANUP_FREE char *path = cli_job_file(job, "log");
    CLEANUP_FD int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CLEANUP_FD int log =
        path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (log < 0 || null < 0)
        return gp_err_set(err, -errno, "%s: %s", path ? path : "", strerror(errno));
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    return 0;
}

/* The process in between ends at once, so that nobody has to wait for the guardian. */
static int
detach(struct cli_job *job, struct cli_run_request *request, struct gp_err *err)
{
    int status = 0, r;
    pid_t pid = fork();

    if (pid < 0)
        return gp_err_set(err, -errno, "fork: %s", strerror(errno));
    if (pid) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        return exit_of(status) ? gp_err_set(err, -EIO, "it could not be started") : 0;
    }
    r = redirect(job, err);
    if (r < 0)
        _exit(cli_fail(CLI_FAILED, "job: %s", gp_err_msg(err, r)));
    pid = fork();
    if (pid == 0)
        guard(job, request);
    _exit(pid < 0 ? CLI_FAILED : CLI_OK);
}

/* What the runner would say in the log, while the user still reads it. */
static int
check_want(struct cli_want *want)
{
    struct gp_err err = {0};
    int r = cli_want_finish(want, &err);

    r = r < 0 ? cli_fail(cli_want_exit(r), "job submit: %s", gp_err_msg(&err, r))
              : cli_explain_check(want, "job submit");
    cli_want_fini(want); /* the runner finishes it again */
    return r;
}

static int
submit_request(struct cli_run_request *request)
{
    CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};
    CLEANUP_FD int lock = -1;
    struct gp_err err = {0};
    int r = cli_run_check_program(request, "job submit");

    if (!r)
        r = check_want(&request->want);
    if (r)
        return r;
    r = cli_job_make(request->program, &job, &lock, &err);
    request->began = note_session;
    request->began_arg = &job;
    if (!r && request->name)
        r = cli_job_note(&job, "name", request->name, &err);
    if (!r)
        r = detach(&job, request, &err);
    if (r < 0)
        return cli_fail(CLI_FAILED, "job submit: %s", gp_err_msg(&err, r));
    printf("%u\n", job.number);
    return CLI_OK;
}

static int
submit(int argc, char **argv)
{
    struct cli_run_request request = {.wait = true, .detached = true};
    int status;

    cli_want_init(&request.want);
    status = cli_run_parse(
        &request, "gpupool job submit",
        "Run PROGRAM with a slice of a card of the pool as its GPU, and do not wait "
        "for "
        "it.",
        "Prints the job's number.  The job waits for room (for so long at most: "
        "--wait=TIME),\n"
        "and goes on when its user logs out, unless the system ends a user's processes "
        "then\n"
        "(loginctl enable-linger).\n",
        argc, argv);
    if (status < 0)
        status = request.dry_run ? cli_run_program(&request) : submit_request(&request);
    cli_want_fini(&request.want);
    return status;
}

/* --------------------------------------------------------------------- list -- */

static uint64_t
submitted(const struct cli_job *job)
{
    CLEANUP_FREE char *path = cli_job_file(job, "command");
    struct stat st;

    return path && !stat(path, &st) ? (uint64_t)st.st_mtim.tv_sec : 0;
}

static json_t *
job_json(const struct cli_job *job)
{
    json_t *words = json_array();

    for (size_t at = 0; at < job->command_len; at += strlen(job->command + at) + 1) {
        json_t *word = json_string(job->command + at);

        json_array_append_new(words, word ? word : json_string("?")); /* not UTF-8 */
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:o, s:I, s:o, s:s}", "job",
                     (int)job->number, "name", job->name, "state",
                     cli_job_state_word(job), "session", job->session, "exit_status",
                     job->state == CLI_JOB_ENDED ? json_integer(job->status)
                                                 : json_null(),
                     "submitted_unix", (json_int_t)submitted(job), "command", words,
                     "folder", job->folder);
}

static void
add_row(struct cli_table *table, const struct cli_job *job)
{
    uint64_t age = gp_wall_ns() / GP_NS_PER_S - submitted(job);
    char command[512];
    size_t at = 0;

    for (size_t from = 0; from < job->command_len && at + 1 < sizeof(command);
         from += strlen(job->command + from) + 1)
        at += (size_t)snprintf(command + at, sizeof(command) - at, "%s%s",
                               at ? " " : "", job->command + from);
    cli_table_add(table, "%u", job->number);
    cli_table_add(table, "%s", cli_job_state_word(job));
    cli_table_add(table, "%s", job->session);
    if (job->state == CLI_JOB_ENDED)
        cli_table_add(table, "%d", job->status);
    else
        cli_table_add(table, "%s", "");
    cli_table_add(table, "%llus", (unsigned long long)age);
    cli_table_add(table, "%s", job->name);
    cli_table_add(table, "%s", command);
}

static int
list_all(const struct cli_output *output, struct gp_err *err)
{
    static const char *const heads[] = {"JOB",  "STATE", "SESSION", ">EXIT",
                                        ">AGE", "NAME",  "COMMAND"};
    CLEANUP(cli_table_fini) struct cli_table table;
    CLEANUP_FREE unsigned *numbers = NULL;
    json_t *rows = json_array();
    unsigned n;
    int r = cli_job_numbers(&numbers, &n, err);

    cli_table_init(&table, heads, ARRAY_SIZE(heads));
    table.wide = output->form == CLI_FORM_WIDE;
    table.headless = output->headless;
    for (unsigned i = 0; !r && i < n; i++) {
        CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};

        if (cli_job_read(numbers[i], &job, NULL) < 0)
            continue; /* it is being made, or deleted */
        json_array_append_new(rows, job_json(&job));
        add_row(&table, &job);
    }
    if (r < 0 || output->form < CLI_FORM_JSON) {
        json_decref(rows);
        if (r >= 0 && !cli_table_rows(&table) && !table.headless)
            printf("no jobs\n");
        return r < 0 ? r : cli_table_rows(&table) ? cli_table_print(&table, stdout) : 0;
    }
    return cli_output_print(output, json_pack("{s:o}", "jobs", rows));
}

static int
list(int argc, char **argv)
{
    struct cli_output output = {.headless = false};
    const struct gp_option_set_of set = cli_output_options(&output);
    const struct gp_options options = {
        .program = "gpupool job list",
        .about = "The jobs of this user on this host: waiting, running, ended (with "
                 "their exit\nstatus) or lost, and their sessions.",
        .sets = &set,
        .n_sets = 1,
    };
    struct gp_err err = {0};
    int first, status = cli_options(&options, argc, argv, &first), r;

    if (status >= 0)
        return status;
    r = list_all(&output, &err);
    return r < 0 ? cli_fail(CLI_FAILED, "job list: %s", gp_err_msg(&err, r)) : CLI_OK;
}

/* ---------------------------------------------------------- logs, kill, delete -- */

struct one {
    const char *lines;
    bool follow;
    uint64_t grace_ms, timeout_ms;
};

/* -1: go on, with the job that is named; else the exit status. */
static int
read_one(const struct gp_options *options, int argc, char **argv, struct cli_job *ret)
{
    struct gp_err err = {0};
    uint64_t number;
    int first, status = cli_options(options, argc, argv, &first), r;

    if (status >= 0)
        return status;
    if (first + 1 != argc || gp_str_u64(argv[first], 1, UINT32_MAX, &number) < 0)
        return cli_fail(CLI_USAGE,
                        "%s: the number of a job is wanted, see gpupool %s "
                        "--help",
                        options->program + strlen("gpupool "),
                        options->program + strlen("gpupool "));
    r = cli_job_read((unsigned)number, ret, &err);
    return r < 0 ? cli_fail(CLI_FAILED, "%s: %s", options->program + strlen("gpupool "),
                            gp_err_msg(&err, r))
                 : -1;
}

static int
set_lines(void *target, const struct gp_option *option, const char *value,
          struct gp_err *err)
{
    uint64_t lines;

    if (gp_str_u64(value, 0, INT64_MAX, &lines) < 0)
        return gp_err_set(err, -EINVAL, "a number of lines is wanted");
    return gp_option_text(target, option, value, err);
}

/* What `tail` of @args shows; its exit status. */
static int
show(char **args)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execvp(args[0], args);
        _exit(cli_fail(CLI_FAILED, "job logs: tail: %s", strerror(errno)));
    }
    if (pid < 0)
        return cli_fail(CLI_FAILED, "job logs: fork: %s", strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return exit_of(status);
}

/* On stderr, because stdout may be its log.  The exit status of one that has ended. */
static int
say_end(const struct cli_job *before)
{
    CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};
    struct gp_err err = {0};
    int r = cli_job_read(before->number, &job, &err);

    if (r < 0)
        return cli_fail(CLI_FAILED, "job: %s", gp_err_msg(&err, r));
    if (job.state == CLI_JOB_ENDED)
        return cli_fail(job.status, "job %u has ended with exit status %d", job.number,
                        job.status);
    if (job.state == CLI_JOB_LOST)
        return cli_fail(CLI_FAILED,
                        "job %u was lost: its processes were killed, or the host was "
                        "started again",
                        job.number);
    return CLI_OK;
}

static int
logs(int argc, char **argv)
{
    static const struct gp_option own[] = {
        {.name = "lines",
         .letter = 'n',
         .value = "N",
         .help = "the last N lines (all)",
         .set = set_lines,
         .offset = offsetof(struct one, lines)},
        {.name = "follow",
         .letter = 'f',
         .help = "go on with what is written, until the job has ended",
         .set = gp_option_yes,
         .offset = offsetof(struct one, follow)},
    };
    struct one one = {.lines = "+1"};
    const struct gp_option_set_of set = {own, ARRAY_SIZE(own), &one};
    const struct gp_options options = {
        .program = "gpupool job logs",
        .arguments = "JOB",
        .arguments_complete = "jobs",
        .about = "What a job has written, and what became of its session.",
        .sets = &set,
        .n_sets = 1,
    };
    CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};
    CLEANUP_FREE char *path = NULL, *pid = NULL;
    int n = 0, status = read_one(&options, argc, argv, &job);
    char *args[8];

    if (status >= 0)
        return status;
    path = cli_job_file(&job, "log");
    pid = gp_str_printf("--pid=%d", job.guardian.pid);
    if (!path || !pid)
        return cli_fail(CLI_FAILED, "job logs: out of memory");
    args[n++] = (char *)(uintptr_t) "tail";
    args[n++] = (char *)(uintptr_t) "-n";
    args[n++] = (char *)(uintptr_t)one.lines;
    if (one.follow && job.guardian.pid && job.state <= CLI_JOB_RUNNING) {
        args[n++] = (char *)(uintptr_t) "-f";
        args[n++] = pid;
    }
    args[n++] = path;
    args[n] = NULL;
    status = show(args);
    if (!status)
        say_end(&job);
    return status;
}

/* Everything of it: what the guardian leads, and the guardian, which can note nothing
 * then.  It may have noted the end of the program, and waited for what that left. */
static int
kill_hard(struct cli_job *job, struct gp_err *err)
{
    CLEANUP_FREE char *path = NULL;
    int fd;

    if (job->guardian.pid && !cli_process_open(&job->guardian, &fd)) {
        kill(-job->guardian.pid, SIGKILL); /* it lives: the number is still its */
        close(fd);
    }
    cli_job_await(job, gp_now_ns() + 10 * GP_NS_PER_S);
    path = cli_job_file(job, "exit");
    if (!path)
        return -ENOMEM;
    return access(path, F_OK) == 0 ? 0 : cli_job_note(job, "exit", "137\n", err);
}

/* Its processes are noted a moment after it was made. */
static int
read_processes(struct cli_job *job, uint64_t deadline_ns, struct gp_err *err)
{
    unsigned number = job->number;
    int r = 0;

    while (!r && job->state <= CLI_JOB_RUNNING && !job->runner.pid &&
           gp_now_ns() < deadline_ns) {
        gp_sleep_ns(10 * GP_NS_PER_MS);
        cli_job_fini(job);
        r = cli_job_read(number, job, err);
    }
    return r;
}

static int
end_job(struct cli_job *job, uint64_t grace_ms, struct gp_err *err)
{
    uint64_t deadline = gp_now_ns() + grace_ms * GP_NS_PER_MS;
    int fd, r = read_processes(job, gp_now_ns() + GP_NS_PER_S, err);

    if (r < 0)
        return r;
    if (job->state > CLI_JOB_RUNNING)
        return gp_err_set(err, -ESRCH, "job %u has ended already", job->number);
    if (job->runner.pid && !cli_process_open(&job->runner, &fd)) {
        pidfd_send_signal(fd, SIGTERM, NULL, 0);
        close(fd);
    }
    r = cli_job_await(job, deadline);
    return r < 0 ? kill_hard(job, err) : 0;
}

static int
kill_one(int argc, char **argv)
{
    static const struct gp_option own[] = {
        {.name = "grace",
         .value = "TIME",
         .help = "how long the program has to end by itself after SIGTERM (10s)",
         .set = gp_option_time,
         .max = UINT32_MAX,
         .offset = offsetof(struct one, grace_ms)},
    };
    struct one one = {.grace_ms = 10000};
    const struct gp_option_set_of set = {own, ARRAY_SIZE(own), &one};
    const struct gp_options options = {
        .program = "gpupool job kill",
        .arguments = "JOB",
        .arguments_complete = "jobs",
        .about = "End a job: its program, and with it its session or its place in the "
                 "queue.",
        .sets = &set,
        .n_sets = 1,
    };
    CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};
    struct gp_err err = {0};
    int status = read_one(&options, argc, argv, &job), r;

    if (status >= 0)
        return status;
    r = end_job(&job, one.grace_ms, &err);
    return r < 0 ? cli_fail(CLI_FAILED, "job kill: %s", gp_err_msg(&err, r)) : CLI_OK;
}

static int
delete_one(int argc, char **argv)
{
    const struct gp_options options = {
        .program = "gpupool job delete",
        .arguments = "JOB",
        .arguments_complete = "jobs",
        .about = "Forget a job that has ended, with its log.",
    };
    CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};
    struct gp_err err = {0};
    int status = read_one(&options, argc, argv, &job), r;

    if (status >= 0)
        return status;
    r = cli_job_delete(&job, &err);
    return r < 0 ? cli_fail(CLI_FAILED, "job delete: %s", gp_err_msg(&err, r)) : CLI_OK;
}

/* As timeout(1). */
#define WAIT_IS_OVER 124

static int
wait_one(int argc, char **argv)
{
    static const struct gp_option own[] = {
        {.name = "timeout",
         .value = "TIME",
         .help = "give up after so long, with exit status 124 (never)",
         .set = gp_option_time,
         .max = UINT32_MAX,
         .offset = offsetof(struct one, timeout_ms)},
    };
    struct one one = {.timeout_ms = UINT64_MAX};
    const struct gp_option_set_of set = {own, ARRAY_SIZE(own), &one};
    const struct gp_options options = {
        .program = "gpupool job wait",
        .arguments = "JOB",
        .arguments_complete = "jobs",
        .about = "Wait until a job has ended; the exit status is that of its program.",
        .sets = &set,
        .n_sets = 1,
    };
    CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};
    int status = read_one(&options, argc, argv, &job);
    uint64_t until;

    if (status >= 0)
        return status;
    until = one.timeout_ms == UINT64_MAX ? UINT64_MAX
                                         : gp_now_ns() + one.timeout_ms * GP_NS_PER_MS;
    if (cli_job_await(&job, until) < 0)
        return cli_fail(WAIT_IS_OVER, "job wait: job %u has not ended", job.number);
    return say_end(&job);
}

static const struct gp_command VERBS[] = {
    {"submit", submit, NULL}, {"list", list, NULL},     {"wait", wait_one, NULL},
    {"logs", logs, NULL},     {"kill", kill_one, NULL}, {"delete", delete_one, NULL}};

int
cli_job(int argc, char **argv)
{
    static const char *const WORDS[] = {"submit", "list",   "wait", "logs",
                                        "kill",   "delete", NULL};
    const struct gp_options options = {
        .program = "gpupool job",
        .arguments = "submit|list|wait|logs|kill|delete",
        .arguments_words = WORDS,
        .verbs = VERBS,
        .n_verbs = ARRAY_SIZE(VERBS),
        .about = "Programs that run with a slice of a card after their user has gone.",
        .after =
            "Each has options of its own: gpupool job submit --help.  Logs and exit "
            "statuses are in\n"
            "$XDG_STATE_HOME/gpupool/jobs, else ~/.local/state/gpupool/jobs.\n",
    };
    int first, status;

    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(VERBS); i++)
        if (strcmp(argv[1], VERBS[i].name) == 0)
            return VERBS[i].run(argc - 1, argv + 1);
    status = cli_options(&options, argc, argv, &first);
    return status >= 0
               ? status
               : cli_fail(CLI_USAGE, "job: submit, list, wait, logs, kill or delete is "
                                     "wanted, see gpupool job --help");
}
