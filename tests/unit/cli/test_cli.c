/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line's files and processes: the pool file, the private folder, session
 * files, tables.
 */
#include "ut.h"

#include "cli_daemon.h"
#include "cli_folder.h"
#include "cli_jobs.h"
#include "cli_pool.h"
#include "cli_reply.h"
#include "cli_session_file.h"
#include "cli_table.h"
#include "cli_yaml.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_time.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[64];

static int
setup(void **state)
{
    snprintf(folder, sizeof(folder), "/tmp/ut-cli-XXXXXX");
    return !mkdtemp(folder) || setenv("GPUPOOL_RUN_DIR", folder, 1);
}

static void
empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

static int
teardown(void **state)
{
    char sessions[96];

    snprintf(sessions, sizeof(sessions), "%s/sessions", folder);
    empty(sessions);
    rmdir(sessions);
    snprintf(sessions, sizeof(sessions), "%s/gpupool/jobs", folder);
    empty(sessions);
    rmdir(sessions);
    *strrchr(sessions, '/') = '\0';
    rmdir(sessions);
    empty(folder);
    return rmdir(folder);
}

static pid_t
spawn_sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

/* -------------------------------------------------------------------- pool -- */

static void
pool_file_says_what_was_written(void **state)
{
    struct cli_pool pool = {.scheduler = "[::1]:7480", .n = 2}, again;

    pool.processes[0] = (struct cli_process){"scheduler", 4711, UINT64_MAX};
    pool.processes[1] = (struct cli_process){"local-1", 4712, 17};
    assert_int_equal(cli_pool_read(&again, NULL), -ENOENT);
    assert_int_equal(cli_pool_write(&pool, NULL), 0);
    assert_int_equal(cli_pool_read(&again, NULL), 0);
    assert_string_equal(again.scheduler, pool.scheduler);
    assert_int_equal(again.n, 2);
    assert_string_equal(again.processes[1].name, "local-1");
    assert_int_equal(again.processes[1].pid, 4712);
    assert_true(again.processes[0].start == UINT64_MAX);
    assert_int_equal(cli_pool_remove(NULL), 0);
    assert_int_equal(cli_pool_read(&again, NULL), -ENOENT);
}

static void
pool_file_of_another_kind_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "gpupool-pool 2\n",
        "gpupool-pool 1\nprocess scheduler 0 5\n",
        "gpupool-pool 1\nprocess scheduler -1 5\n",
        "gpupool-pool 1\nprocess scheduler 12\n",
        "gpupool-pool 1\nrubbish\n",
    };
    struct cli_pool pool;
    char path[96];

    snprintf(path, sizeof(path), "%s/pool", folder);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(gp_file_replace(path, bad[i], strlen(bad[i]), 0600, NULL), 0);
        if (cli_pool_read(&pool, NULL) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
    }
}

static void
process_number_that_changed_hands_is_left_alone(void **state)
{
    struct cli_pool pool = {.n = 1};
    struct cli_process *p = &pool.processes[0];
    int pidfd;

    p->pid = spawn_sleeper();
    assert_int_equal(cli_process_start(p->pid, &p->start), 0);
    p->start++; /* as if that number had belonged to an earlier process */
    assert_int_equal(cli_process_open(p, &pidfd), -ESRCH);
    assert_false(cli_pool_alive(&pool));
    assert_int_equal(cli_pool_end(&pool, gp_now_ns()).ended, 0);
    assert_int_equal(waitpid(p->pid, NULL, WNOHANG), 0); /* still there */
    p->start--;
    assert_true(cli_pool_alive(&pool));
    assert_int_equal(cli_pool_end(&pool, GP_FOREVER).killed, 0);
    assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
    assert_false(cli_pool_alive(&pool));
}

static void
process_that_ignores_its_end_is_killed(void **state)
{
    struct cli_pool pool = {.n = 1};
    struct cli_process *p = &pool.processes[0];
    int ready[2], status;
    char byte;

    assert_int_equal(pipe(ready), 0);
    p->pid = fork();
    if (p->pid == 0) {
        signal(SIGTERM, SIG_IGN);
        if (write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(cli_process_start(p->pid, &p->start), 0);
    assert_int_equal(cli_pool_end(&pool, gp_now_ns()).killed, 1);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ready[0]);
    close(ready[1]);
}

static void
daemon_that_ends_is_noticed_before_the_deadline(void **state)
{
    static const char *const argv[] = {"/bin/sh", "-c", "echo sorry >&2; exit 3", NULL};
    struct cli_process process;
    struct gp_err err = {0};
    char log[96], never[96], *text;
    int pidfd = -1;
    size_t len;

    snprintf(log, sizeof(log), "%s/log", folder);
    snprintf(never, sizeof(never), "%s/never", folder);
    if (!cli_daemon_start("sorry", argv, NULL, log, &process, &pidfd, &err)) {
        assert_int_equal(cli_daemon_await_file(folder, never, pidfd, GP_FOREVER, &err),
                         -ECHILD);
        close(pidfd);
        waitpid(process.pid, NULL, 0);
    }
    assert_int_equal(gp_file_read(log, 100, &text, &len, NULL), 0);
    assert_string_equal(text, "sorry\n");
    free(text);
}

/* ------------------------------------------------------------------ folder -- */

static void
folder_that_others_can_write_is_refused(void **state)
{
    struct gp_err err = {0};
    char *path = NULL;
    struct stat st;

    assert_int_equal(cli_folder(&path, &err), 0);
    assert_string_equal(path, folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    free(path);
    path = NULL;
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(cli_folder(&path, &err), -EPERM);
    assert_non_null(strstr(err.msg, "GPUPOOL_RUN_DIR"));
    assert_null(path);
    assert_int_equal(chmod(folder, 0700), 0);
}

static void
folder_behind_a_link_is_refused(void **state)
{
    char link[96], *path = NULL;

    snprintf(link, sizeof(link), "%s/link", folder);
    assert_int_equal(symlink("/tmp", link), 0);
    setenv("GPUPOOL_RUN_DIR", link, 1);
    assert_int_equal(cli_folder(&path, NULL), -EPERM);
    setenv("GPUPOOL_RUN_DIR", folder, 1);
}

/* ---------------------------------------------------------------- sessions -- */

static void
session_file_is_private_and_in_the_documented_form(void **state)
{
    Gpupool__Ctl__CtlGrant grant = GPUPOOL__CTL__CTL_GRANT__INIT;
    Gpupool__Ctl__CtlTicket ticket = GPUPOOL__CTL__CTL_TICKET__INIT, *tickets = &ticket;
    char *path, *text;
    struct stat st;
    uint8_t secret[GP_X25519_SIZE] = {0xff, 0xef};
    size_t len;

    ticket.endpoint = (char *)"host:7481";
    ticket.local = (char *)"unix:/run/x.sock";
    ticket.text = (char *)"abc.def";
    grant.session = (char *)"s7";
    grant.tickets = &tickets;
    grant.n_tickets = 1;
    assert_int_equal(cli_session_file_path("s7", &path, NULL), 0);
    assert_int_equal(cli_session_file_write(path, &grant, secret, NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(gp_file_read(path, 1000, &text, &len, NULL), 0);
    assert_string_equal(text, "gpupool-session 1\nsession s7\n"
                              "secret _-8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
                              "server host:7481\n"
                              "local unix:/run/x.sock\nticket abc.def\n");
    free(text);
    free(path);
}

static void
session_files_of_the_dead_are_removed_those_of_the_living_kept(void **state)
{
    char *own, *path, dead_file[128], alive_file[128];
    pid_t dead = spawn_sleeper(), alive = spawn_sleeper();

    assert_int_equal(cli_session_file_path("s1", &own, NULL), 0);
    free(own);
    snprintf(dead_file, sizeof(dead_file), "%s/sessions/s1.%d", folder, (int)dead);
    snprintf(alive_file, sizeof(alive_file), "%s/sessions/s2.%d", folder, (int)alive);
    assert_int_equal(gp_file_replace(dead_file, "", 0, 0600, NULL), 0);
    assert_int_equal(gp_file_replace(alive_file, "", 0, 0600, NULL), 0);
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);
    assert_int_equal(cli_session_file_path("s3", &path, NULL), 0);
    assert_int_equal(access(dead_file, F_OK), -1);
    assert_int_equal(access(alive_file, F_OK), 0);
    kill(alive, SIGKILL);
    waitpid(alive, NULL, 0);
    free(path);
}

/* ------------------------------------------------------------------ tables -- */

static void
table_columns_are_as_wide_as_their_widest_cell(void **state)
{
    static const char *const heads[] = {"NAME", ">SIZE", "END"};
    struct cli_table table;
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    cli_table_init(&table, heads, 3);
    cli_table_add(&table, "%s", "a long name");
    cli_table_add(&table, "%d", 5);
    cli_table_add(&table, "%s", "");
    cli_table_add(&table, "%s", "b");
    cli_table_add(&table, "%d", 123456);
    cli_table_add(&table, "%s", "x");
    assert_int_equal(cli_table_print(&table, f), 0);
    fclose(f);
    assert_string_equal(text, "NAME           SIZE  END\n"
                              "a long name       5  -\n"
                              "b            123456  x\n");
    free(text);
    cli_table_fini(&table);
}

/* The first rows of many, without having all of them at a time. */
static void
table_sorted_in_parts_begins_as_when_sorted_whole(void **state)
{
    static const char *const heads[] = {"NAME", ">SIZE"};
    struct cli_table whole, parts;
    size_t cut = 0;

    (void)state;
    cli_table_init(&whole, heads, 2);
    cli_table_init(&parts, heads, 2);
    for (unsigned i = 0; i < 1000; i++) {
        cli_table_add(&whole, "s%u", i);
        cli_table_add(&whole, "%u MiB", i * 7919 % 100);
        cli_table_add(&parts, "s%u", i);
        cli_table_add(&parts, "%u MiB", i * 7919 % 100);
        if (cli_table_rows(&parts) == 30) {
            cli_table_sort(&parts, 1, true);
            cut += cli_table_cut(&parts, 20);
        }
    }
    cli_table_sort(&whole, 1, true);
    cli_table_sort(&parts, 1, true);
    cut += cli_table_cut(&parts, 20);
    assert_int_equal(cli_table_cut(&whole, 20), 980);
    assert_int_equal(cut, 980);
    assert_int_equal(cli_table_cut(&whole, 20), 0);
    assert_int_equal(whole.n, parts.n);
    for (size_t i = 0; i < whole.n; i++)
        assert_string_equal(whole.cells[i], parts.cells[i]);
    cli_table_fini(&whole);
    cli_table_fini(&parts);
}

#define PROMISE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

static void
session_name_of_a_false_scheduler_chooses_no_folder(void **state)
{
    static const char *const bad[] = {"",    "s",     "../s1", "s1/../../x", "s1/x",
                                      "s 1", "s1\nx", "x1",    "s-1",        "s0x1"};
    struct gp_err err = {0};
    char *path = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(cli_session_file_path(bad[i], &path, &err), -EPROTO);
        assert_non_null(strstr(err.msg, "not like s7"));
    }
    assert_null(path);
}

/* -------------------------------------------------------------------- YAML -- */

static void
check_yaml(void (*print)(FILE *f, const json_t *value), const char *json,
           const char *want)
{
    json_t *value = json_loads(json, 0, NULL);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(value);
    print(f, value);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
    json_decref(value);
}

static void
yaml_has_quotes_where_text_could_be_something_else(void **state)
{
    check_yaml(
        cli_yaml_print,
        "{\"a\": \"plain-text_1.x\", \"b\": \"yes\", \"c\": \"1.0\", \"d\": \"\","
        " \"e\": \"a: b\", \"f\": \"#x\", \"g\": \"two words\", \"h\": 7,"
        " \"i\": null, \"j\": true, \"k\": \"Null\", \"l\": \"a\\n- b\"}",
        "a: plain-text_1.x\nb: \"yes\"\nc: \"1.0\"\nd: \"\"\ne: \"a: b\"\n"
        "f: \"#x\"\ng: \"two words\"\nh: 7\ni: null\nj: true\nk: \"Null\"\n"
        "l: \"a\\n- b\"\n");
}

static void
yaml_nests_by_indentation(void **state)
{
    check_yaml(cli_yaml_print,
               "{\"list\": [{\"a\": 1, \"b\": {\"c\": 2}}, {\"a\": []}], \"none\": [],"
               " \"numbers\": [1, 2], \"deep\": [[3, 4]]}",
               "list:\n  - a: 1\n    b:\n      c: 2\n  - a: []\nnone: []\nnumbers:\n"
               "  - 1\n  - 2\ndeep:\n  - - 3\n    - 4\n");
}

static void
people_read_units_and_no_control_characters(void **state)
{
    check_yaml(cli_yaml_print_for_people,
               "{\"memory_bytes\": 67108864, \"core_percent\": 30, \"silent_ms\": 1500,"
               " \"max_attachments\": 4, \"owner\": \"ann@host name\", \"links\": \"\","
               " \"program\": \"x\\u001b[2J\"}",
               "memory: 64 MiB\ncore: 30 %\nsilent: 1.5 s\nmax attachments: 4\n"
               "owner: ann@host name\nlinks: -\nprogram: \"x\\u001B[2J\"\n");
}

/* ------------------------------------------------------------------------ jobs -- */

#define JOBS 200

static void *
read_jobs(void *arg)
{
    const atomic_bool *end = arg;
    uintptr_t lost = 0;

    while (!*end)
        for (unsigned number = 1; number <= JOBS; number++) {
            CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};

            lost += !cli_job_read(number, &job, NULL) && job.state == CLI_JOB_LOST;
        }
    return (void *)lost;
}

/* Who lists jobs while others are made neither keeps one from being made nor takes it
 * for lost. */
static void
a_job_that_is_being_made_is_locked_before_it_is_seen(void **state)
{
    char *const command[] = {(char *)(uintptr_t) "true", NULL};
    int locks[JOBS];
    atomic_bool end = false;
    pthread_t reader;
    void *lost;

    assert_int_equal(setenv("XDG_STATE_HOME", folder, 1), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_jobs, &end), 0);
    for (unsigned i = 0; i < JOBS; i++) {
        CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};
        struct gp_err err = {0};

        assert_int_equal(cli_job_make(command, &job, &locks[i], &err), 0);
    }
    end = true;
    pthread_join(reader, &lost);
    assert_int_equal((uintptr_t)lost, 0);
    for (unsigned number = 1; number <= JOBS; number++) {
        CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};

        close(locks[number - 1]);
        assert_int_equal(cli_job_read(number, &job, NULL), 0);
        assert_int_equal(cli_job_delete(&job, NULL), 0);
    }
}

/* One that could not be made leaves nothing that no command removes. */
static void
a_job_that_cannot_be_made_leaves_nothing(void **state)
{
    CLEANUP_FREE char *word = malloc(300 << 10);
    CLEANUP_FREE unsigned *numbers = NULL;
    char *const command[] = {word, NULL};
    struct cli_job job;
    struct gp_err err = {0};
    unsigned n;
    int lock;

    memset(word, 'x', (300 << 10) - 1);
    word[(300 << 10) - 1] = '\0';
    assert_int_equal(setenv("XDG_STATE_HOME", folder, 1), 0);
    assert_int_equal(cli_job_make(command, &job, &lock, &err), -E2BIG);
    assert_non_null(strstr(err.msg, "longer than 256 KiB"));
    assert_int_equal(cli_job_numbers(&numbers, &n, NULL), 0);
    assert_int_equal(n, 0);
}

static Gpupool__Ctl__CtlReply *
over_the_wire(const Gpupool__Ctl__CtlReply *reply)
{
    uint8_t bytes[1024];
    size_t size = gpupool__ctl__ctl_reply__get_packed_size(reply);
    Gpupool__Ctl__CtlReply *ret;

    assert_true(size <= sizeof(bytes));
    ret = cli_reply_unpack(bytes, gpupool__ctl__ctl_reply__pack(reply, bytes));
    assert_non_null(ret);
    return ret;
}

/* In every depth: a peer of a peer chooses some of them. */
static void
texts_of_a_scheduler_move_no_cursor(void **state)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT, *got;
    Gpupool__Ctl__CtlError error = GPUPOOL__CTL__CTL_ERROR__INIT;
    Gpupool__Ctl__CtlReason reason = GPUPOOL__CTL__CTL_REASON__INIT, *reasons = &reason;
    Gpupool__Ctl__CtlQueued queued = GPUPOOL__CTL__CTL_QUEUED__INIT;

    error.words = (char *)"\x1b[2J\x1b]0;title\a none fits\r\n";
    reason.server = (char *)"a\xc2\x9b"
                            "1m"; /* the same as ESC [ 1 m */
    reason.words = (char *)"k\xc3\xb6nigsblau \xe2\x82\xac";
    error.reasons = &reasons;
    error.n_reasons = 1;
    reply.error = &error;
    got = over_the_wire(&reply);
    assert_string_equal(got->error->words, "?[2J?]0;title? none fits??");
    assert_string_equal(got->error->reasons[0]->server, "a?1m");
    assert_string_equal(got->error->reasons[0]->words, reason.words);
    assert_string_equal(got->error->leader, "");
    cli_reply_free(got);

    reply.error = NULL;
    queued.reason = (char *)"\x7f\x80\x9b\xe2\x80\xae\xc3";
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED;
    reply.queued = &queued;
    got = over_the_wire(&reply);
    assert_string_equal(got->queued->reason, "?????");
    cli_reply_free(got);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(texts_of_a_scheduler_move_no_cursor),
        PROMISE(pool_file_says_what_was_written),
        PROMISE(session_name_of_a_false_scheduler_chooses_no_folder),
        PROMISE(pool_file_of_another_kind_is_refused),
        PROMISE(process_number_that_changed_hands_is_left_alone),
        PROMISE(process_that_ignores_its_end_is_killed),
        PROMISE(daemon_that_ends_is_noticed_before_the_deadline),
        PROMISE(folder_that_others_can_write_is_refused),
        PROMISE(folder_behind_a_link_is_refused),
        PROMISE(session_file_is_private_and_in_the_documented_form),
        PROMISE(session_files_of_the_dead_are_removed_those_of_the_living_kept),
        PROMISE(table_columns_are_as_wide_as_their_widest_cell),
        PROMISE(table_sorted_in_parts_begins_as_when_sorted_whole),
        PROMISE(yaml_has_quotes_where_text_could_be_something_else),
        PROMISE(yaml_nests_by_indentation),
        PROMISE(people_read_units_and_no_control_characters),
        PROMISE(a_job_that_is_being_made_is_locked_before_it_is_seen),
        PROMISE(a_job_that_cannot_be_made_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
