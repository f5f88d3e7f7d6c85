/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool doctor: why does it not work here?
 *
 * One line per thing looked at, with the remedy below it when it is bad.  It looks at
 * everything even after a failure; without a program to run it takes nothing from the
 * pool and changes nothing.
 */
#include "cli.h"
#include "cli_doctor_program.h"
#include "cli_jax.h"
#include "cli_list.h"
#include "cli_run.h"
#include "cli_table.h"
#include "cli_variables.h"
#include "ctl_json.h"
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "ticket.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define REACH_NS (2 * GP_NS_PER_S)
/* Of a large pool; each that does not answer takes REACH_NS. */
#define SERVERS_TRIED 32

struct doctor {
    struct cli_run_request request; /* its program NULL: there is none */
    bool json;
    bool trips; /* print them */
    unsigned failures, warnings;
    json_t *findings;    /* NULL: they are printed */
    json_t *round_trips; /* NULL: they were not asked for, or are printed */
};

enum finding {
    GOOD,
    WARN,
    BAD,
};

static void GP_PRINTF(3, 4)
    say(struct doctor *d, enum finding finding, const char *fmt, ...)
{
    static const char *const words[] = {"ok  ", "warn", "FAIL"};
    static const char *const names[] = {"ok", "warning", "failure"};
    char text[1024];
    va_list ap;

    d->failures += finding == BAD;
    d->warnings += finding == WARN;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (d->findings)
        json_array_append_new(d->findings, json_pack("{s:s, s:s}", "finding",
                                                     names[finding], "text", text));
    else
        printf("%s  %s\n", words[finding], text);
}

/* What to do about the last finding. */
static void GP_PRINTF(2, 3) remedy(struct doctor *d, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (d->findings)
        json_object_set_new(
            json_array_get(d->findings, json_array_size(d->findings) - 1), "remedy",
            json_string(text));
    else
        printf("        %s\n", text);
}

/* ----------------------------------------------------------------- library -- */

/* Which libcuda.so.1 would a program started from here load?  Asked of the loader
 * itself, in a child, so that nothing stays loaded. */
static bool
loader_finds(char found[PATH_MAX])
{
    int fds[2];
    ssize_t n;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
        struct link_map *map;

        if (!lib || dlinfo(lib, RTLD_DI_LINKMAP, &map) < 0)
            _exit(1);
        _exit(write(fds[1], map->l_name, strlen(map->l_name)) < 0);
    }
    close(fds[1]);
    n = pid < 0 ? -1 : read(fds[0], found, PATH_MAX - 1);
    close(fds[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    if (n <= 0)
        return false;
    found[n] = 0;
    return true;
}

static void
check_library(struct doctor *d)
{
    CLEANUP_FREE char *folder = cli_path_lib();
    CLEANUP_FREE char *ours = folder ? gp_str_printf("%s/libcuda.so.1", folder) : NULL;
    char found[PATH_MAX], real[PATH_MAX], ours_real[PATH_MAX];

    if (!ours) {
        say(d, BAD, "library: no libcuda.so.1 of gpupool beside this command");
        remedy(d,
               "it is looked for in ../lib/gpupool and ../lib; build or install again");
        return;
    }
    say(d, GOOD, "library: %s (`gpupool run` puts its folder first)", ours);
    if (!loader_finds(found))
        say(d, GOOD,
            "library: without `gpupool run`, a program here finds no GPU driver");
    else if (realpath(found, real) && realpath(ours, ours_real) &&
             !strcmp(real, ours_real))
        say(d, GOOD, "library: a program started here finds gpupool's");
    else
        say(d, GOOD, "library: without `gpupool run`, a program here loads %s", found);
}

/* A slice is reached through a socket; there is no device file for it. */
static void
check_device_files(struct doctor *d)
{
    if (cli_jax_file_there())
        return;
    say(d, GOOD,
        "device files: none, and none is needed; only JAX looks for one before it "
        "looks for cards");
    remedy(d, "for JAX: an empty file is enough; " CLI_JAX_REMEDY);
}

static void
say_variable(void *arg, const char *name, const char *meant)
{
    struct doctor *d = arg;

    say(d, WARN, "environment: %s is set, and nothing reads it", name);
    remedy(d, "did you mean %s?", meant);
}

/* ----------------------------------------------------------------- session -- */

static void
check_ticket(struct doctor *d, const char *text)
{
    struct ticket_claims c;
    struct gp_err err = {0};
    uint64_t now = gp_wall_ns() / GP_NS_PER_S;

    if (ticket_peek(text, &c, &err) < 0) {
        say(d, BAD, "ticket: %s", err.msg);
        remedy(d, "start the program with `gpupool run`, which gets a ticket");
    } else if (now >= c.expires) {
        say(d, BAD, "ticket: session %s expired %" PRIu64 " s ago", c.session,
            now - c.expires);
        remedy(d, "is its `gpupool run` still there, and does it reach the scheduler?");
    } else {
        say(d, GOOD, "ticket: session %s of %s on server %s, valid for %" PRIu64 " s",
            c.session, c.owner, c.server, c.expires - now);
    }
}

static void
check_session_file(struct doctor *d, const char *path)
{
    CLEANUP_FREE char *text = NULL;
    struct gp_err err = {0};
    char *ticket, *save = NULL, *line;
    struct stat st;
    size_t len;

    if (gp_file_read(path, 64 * 1024, &text, &len, &err) < 0) {
        say(d, BAD, "session file: %s", err.msg);
        remedy(d,
               "its session has ended; unset GPUPOOL_SESSION_FILE, use `gpupool run`");
        return;
    }
    if (!stat(path, &st) && st.st_mode & (S_IRWXG | S_IRWXO)) {
        say(d, WARN, "session file: others may read %s, and use the session", path);
        remedy(d, "chmod 600 %s", path);
    }
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "ticket ", 7) != 0)
            continue;
        ticket = line + 7;
        check_ticket(d, ticket);
        return;
    }
    say(d, BAD, "session file: %s holds no ticket", path);
    remedy(d, "it is written by `gpupool run`; see gpupool-session(5)");
}

static void
check_session(struct doctor *d)
{
    const char *path = getenv("GPUPOOL_SESSION_FILE"),
               *ticket = getenv("GPUPOOL_TICKET");

    if (path && *path)
        check_session_file(d, path);
    else if (ticket && *ticket)
        check_ticket(d, ticket);
    else
        say(d, GOOD, "session: none here; `gpupool run` opens one per program");
}

/* ----------------------------------------------------------------- servers -- */

static void
check_endpoint(struct doctor *d, const Gpupool__Ctl__CtlServerStatus *server)
{
    CLEANUP_FD int fd = -1;
    struct gp_err err = {0};
    uint64_t start = gp_now_ns();

    if (gp_net_connect(server->endpoint, CTL_DEFAULT_PORT + 1, start + REACH_NS, true,
                       &fd, &err) < 0) {
        say(d, BAD, "server %s: %s", server->server, err.msg);
        remedy(d,
               "clients attach at %s: a firewall between, or the wrong "
               "gpupool-server --advertise?",
               server->endpoint);
        return;
    }
    say(d, GOOD, "server %s: reachable at %s in %.1f ms, driver %s, %zu cards",
        server->server, server->endpoint, (double)(gp_now_ns() - start) / 1e6,
        server->driver, server->n_cards);
}

static void
check_server(struct doctor *d, const Gpupool__Ctl__CtlServerStatus *server)
{
    if (server->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD) {
        if (server->unseen)
            say(d, WARN, "server %s: not connected since the scheduler started",
                server->server);
        else
            say(d, WARN, "server %s: not connected to the scheduler for %.0f s",
                server->server, server->silent_ms / 1000.0);
        remedy(d, "is gpupool-server running at %s?  Its log says more",
               server->endpoint);
        return;
    }
    if (server->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DRAINING)
        say(d, WARN, "server %s: draining, takes no new sessions", server->server);
    if (strcmp(server->version, GPUPOOL_VERSION) != 0)
        say(d, WARN, "server %s: version %s, this is %s", server->server,
            server->version, GPUPOOL_VERSION);
    check_endpoint(d, server);
}

/* The most that a card of the pool has left. */
struct room {
    uint64_t memory;
    uint32_t core;
};

static void
add_room(struct room *room, const Gpupool__Ctl__CtlServerStatus *server)
{
    if (server->state != GPUPOOL__CTL__CTL_SERVER_STATE__CTL_ALIVE)
        return;
    for (size_t k = 0; k < server->n_cards; k++) {
        const Gpupool__Ctl__CtlCardStatus *c = server->cards[k];

        if (c->core_given <= 100 && c->slices < c->slices_max)
            room->core = gp_max(room->core, 100 - c->core_given);
        room->memory = gp_max(room->memory, c->card->memory_bytes - c->memory_given);
    }
}

static void
say_room(struct doctor *d, const struct room *room)
{
    if (room->core)
        say(d, GOOD, "room: a card with %u %% core free, one with %.2f GiB", room->core,
            (double)room->memory / (1024.0 * 1024 * 1024));
    else {
        say(d, WARN, "room: no card has core left");
        remedy(d, "`gpupool status` says who holds it");
    }
}

/* Every server's room; whether it is reached is tried of the first ones. */
static int
check_servers(struct doctor *d, struct cli_list *list, const char *address,
              struct gp_err *err)
{
    static const struct cli_filters all = {0};
    const Gpupool__Ctl__CtlListReply *page;
    struct room room = {0};
    size_t n = 0, dead = 0;
    int r;

    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, &all);
    while ((r = cli_list_next(list, &page, err)) > 0)
        for (size_t i = 0; i < page->n_servers; i++) {
            if (n++ < SERVERS_TRIED)
                check_server(d, page->servers[i]);
            add_room(&room, page->servers[i]);
            dead += page->servers[i]->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD;
        }
    if (r < 0)
        return r;
    if (!n) {
        say(d, BAD, "servers: none has registered");
        remedy(d, "start gpupool-server --scheduler %s on a host with cards", address);
        return 0;
    }
    if (n > SERVERS_TRIED)
        say(d, GOOD, "servers: %zu more, which were not tried", n - SERVERS_TRIED);
    if (dead == n) {
        say(d, BAD, "servers: none of %zu is connected, so no program gets a GPU", n);
        remedy(d, "start gpupool-server again on its host; for a pool of `gpupool up`: "
                  "gpupool down --force, then gpupool up");
        return 0;
    }
    say_room(d, &room);
    return 0;
}

static int
check_answers(struct doctor *d, struct cli_list *list, struct gp_err *err)
{
    static const struct cli_filters all = {0};
    CLEANUP_FREE char *token = NULL;
    const Gpupool__Ctl__CtlListReply *page = NULL;
    const struct cli_where *where = &d->request.want.where;
    char address[GP_NET_NAME_MAX];
    uint64_t start = gp_now_ns();
    int r =
        cli_token(where->token_file, where->scheduler, CLI_TOKEN_CLIENT, &token, err);

    if (!r)
        r = cli_scheduler_address(where->scheduler, address, err);
    if (!r)
        r = cli_list_first(list, where->scheduler, token,
                           GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOL, &all, &page,
                           err);
    if (!r && !page->pool)
        r = gp_err_set(err, -EPROTO, "the scheduler answered something else");
    if (r < 0)
        return r;
    say(d, GOOD, "scheduler: %s answers in %.1f ms, key %s", address,
        (double)(gp_now_ns() - start) / 1e6, page->pool->scheduler_key_id);
    if (strcmp(page->pool->version, GPUPOOL_VERSION) != 0)
        say(d, WARN, "scheduler: version %s, this is %s", page->pool->version,
            GPUPOOL_VERSION);
    return check_servers(d, list, address, err);
}

static void
check_pool(struct doctor *d)
{
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    struct gp_err err = {0};
    int r = check_answers(d, &list, &err);

    if (r >= 0)
        return;
    say(d, BAD, "scheduler: %s", gp_err_msg(&err, r));
    if (cli_ctl_exit(r, NULL) == CLI_REFUSED)
        remedy(d, "name the file that holds the pool's client token in "
                  "GPUPOOL_TOKEN_FILE or --token-file");
    else
        remedy(d, "start one (`gpupool up`), or give the right address in "
                  "GPUPOOL_SCHEDULER or --scheduler");
}

/* --------------------------------------------------------------- transport -- */

static void
check_transport(struct doctor *d)
{
    const char *want = getenv("GPUPOOL_TRANSPORT");

    if (!want || !*want)
        want = "auto";
    if (strcmp(want, "auto") && strcmp(want, "tcp") && strcmp(want, "shm") &&
        strcmp(want, "rdma")) {
        say(d, BAD, "transport: GPUPOOL_TRANSPORT=%s is none of auto, tcp, shm, rdma",
            want);
        remedy(d, "unset GPUPOOL_TRANSPORT");
        return;
    }
    say(d, GOOD, "transport: %s; this host has %s", want,
        access("/sys/class/infiniband", F_OK) ? "no RDMA devices"
                                              : "RDMA devices (/sys/class/infiniband)");
}

/* ----------------------------------------------------------------- program -- */

static void
say_call(struct doctor *d, const struct cli_program_call *call)
{
    const char *times = call->count == 1 ? "once" : "times";
    char count[16] = "";

    if (call->count != 1)
        snprintf(count, sizeof(count), "%u ", call->count);
    say(d, WARN, "%s: %s %s (%d) %s%s%s%s%s", call->refused ? "refused" : "call",
        call->call, call->result, call->code, count, times,
        call->deferred
            ? ", after it had returned; the next call that waited returned it"
            : "",
        call->reason ? ": " : "", call->reason ? call->reason : "");
    if (call->remedy)
        remedy(d, "%s", call->remedy);
    if (d->findings)
        json_object_update_new(
            json_array_get(d->findings, json_array_size(d->findings) - 1),
            json_pack("{s:s, s:s, s:i, s:i, s:b, s:b}", "call", call->call, "result",
                      call->result, "code", call->code, "count", (int)call->count,
                      "refused", (int)call->refused, "deferred", (int)call->deferred));
}

static void
check_calls(struct doctor *d, const struct cli_program *program, int status)
{
    CLEANUP_FREE struct cli_program_call *calls = NULL;
    size_t n;

    calls = cli_program_calls(program, &n);
    if (!cli_program_processes(program)) {
        say(d, WARN, "program: it never loaded gpupool's libcuda.so.1");
        remedy(d,
               "is it statically linked, setuid, or of another machine type?  Does it "
               "set LD_LIBRARY_PATH?");
    } else if (!n) {
        say(d, GOOD, "program: no CUDA call was refused, none failed");
    }
    for (size_t i = 0; i < n; i++)
        say_call(d, &calls[i]);
    if (status)
        say(d, BAD, "program: exit status %d", status);
    else
        say(d, GOOD, "program: exit status 0");
}

/* The calls that waited for the server, one line each, or all calls as JSON. */
static int
say_trips(struct doctor *d, const struct cli_program *program)
{
    static const char *const heads[] = {"CALL", ">CALLS", ">TRIPS"};
    CLEANUP_FREE struct cli_program_trips *list = NULL;
    uint64_t calls = 0, trips = 0;
    struct cli_table table;
    size_t n;
    int r = 0;

    list = cli_program_trips(program, &n);
    cli_table_init(&table, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < n; i++) {
        calls += list[i].calls;
        trips += list[i].trips;
        if (d->round_trips)
            json_array_append_new(d->round_trips,
                                  json_pack("{s:s, s:I, s:I}", "call", list[i].call,
                                            "calls", (json_int_t)list[i].calls, "trips",
                                            (json_int_t)list[i].trips));
        if (!list[i].trips)
            continue;
        cli_table_add(&table, "%s", list[i].call);
        cli_table_add(&table, "%" PRIu64, list[i].calls);
        cli_table_add(&table, "%" PRIu64, list[i].trips);
    }
    if (!d->round_trips && trips)
        r = cli_table_print(&table, stdout);
    cli_table_fini(&table);
    say(d, GOOD, "program: %" PRIu64 " calls, which waited for %" PRIu64 " round trips",
        calls, trips);
    return r;
}

/* Its stdout is not ours to print JSON between. */
static int
run_beside(struct doctor *d)
{
    CLEANUP_FD int out = -1;
    int status;

    fflush(stdout);
    if (d->findings) {
        out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
            return CLI_FAILED;
    }
    d->request.reports = true;
    status = cli_run_program(&d->request);
    if (d->findings)
        dup2(out, STDOUT_FILENO);
    return status;
}

static void
check_program(struct doctor *d)
{
    struct cli_program program = {.fd = -1};
    struct gp_err err = {0};
    int r = cli_program_open(&program, &err);

    if (r == 0) {
        check_calls(d, &program, run_beside(d));
        if (d->trips)
            r = say_trips(d, &program);
    }
    if (r < 0)
        say(d, BAD, "program: %s", gp_err_msg(&err, r));
    cli_program_close(&program);
}

/* -------------------------------------------------------------------- command -- */

/* -1: go on; else the exit status.  The options of `gpupool run` are taken when there
 * is a program to run. */
static int
parse(struct doctor *d, int argc, char **argv)
{
    static const struct gp_option own[] = {
        {.name = "json",
         .help = "the findings as JSON; a program's stdout goes to stderr",
         .set = gp_option_yes,
         .offset = offsetof(struct doctor, json)},
        {.name = "trips",
         .help = "how often each call of the program waited for the server",
         .set = gp_option_yes,
         .offset = offsetof(struct doctor, trips)},
    };
    struct gp_option_set_of sets[1 + CLI_RUN_SETS] = {{own, ARRAY_SIZE(own), d}};
    struct gp_options options = {
        .program = "gpupool doctor",
        .about =
            "Look for reasons why a program would not get a GPU here, and say what to "
            "do.\n"
            "With `-- PROGRAM [ARG...]`, run it as `gpupool run` would, whose options "
            "are taken\n"
            "too, and list every call that gpupool refused and every call that failed, "
            "with\n"
            "reason and remedy; with --trips also the calls that waited for the "
            "server, which\n"
            "are what a program pays for the distance.",
        .after = "Exit status: 0 nothing is wrong, 1 something is (or the program "
                 "failed).\n",
        .sets = sets,
        .n_sets = 2,
    };
    int end = 1, first, status;

    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    if (end + 1 < argc) {
        options.arguments = "-- PROGRAM [ARG...]";
        options.first_ends = true;
        options.env = CLI_WANT_ENV;
        options.n_sets += cli_run_sets(&d->request, &sets[1]) - 1;
    } else {
        sets[1] = cli_where_client(&d->request.want.where);
    }
    status = cli_options(&options, argc, argv, &first);
    if (status >= 0 || !options.arguments)
        return status;
    if (first != end + 1)
        return cli_fail(CLI_USAGE,
                        "doctor: %s: unexpected argument; a program to look at comes "
                        "after --",
                        argv[first]);
    d->request.program = &argv[first];
    return -1;
}

static void
print_json(struct doctor *d)
{
    json_t *root = json_pack("{s:s, s:i, s:i, s:O, s:O*}", "version", GPUPOOL_VERSION,
                             "failures", (int)d->failures, "warnings", (int)d->warnings,
                             "findings", d->findings, "trips", d->round_trips);

    json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
}

static int
look(struct doctor *d)
{
    if (d->json)
        d->findings = json_array();
    if (d->json && d->trips)
        d->round_trips = json_array();
    if (!d->json)
        printf("gpupool %s\n", GPUPOOL_VERSION);
    check_library(d);
    check_device_files(d);
    cli_variables_near(say_variable, d);
    check_pool(d);
    check_session(d);
    check_transport(d);
    if (d->request.program)
        check_program(d);
    if (d->json)
        print_json(d);
    else
        printf("%u %s, %u %s\n", d->failures,
               gp_plural(d->failures, "problem", "problems"), d->warnings,
               gp_plural(d->warnings, "warning", "warnings"));
    json_decref(d->findings);
    json_decref(d->round_trips);
    return d->failures ? CLI_FAILED : CLI_OK;
}

int
cli_doctor(int argc, char **argv)
{
    struct doctor d = {.json = false};
    int status;

    cli_want_init(&d.request.want);
    status = parse(&d, argc, argv);
    if (status < 0)
        status = look(&d);
    cli_want_fini(&d.request.want);
    return status;
}
