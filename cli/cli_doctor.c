/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool doctor: why does it not work here?
 *
 * One line per thing looked at, with the remedy below it when it is bad.  It looks at
 * everything even after a failure, takes nothing from the pool and changes nothing.
 */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_json.h"
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
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define REACH_NS (2 * GP_NS_PER_S)

static const char HELP[] =
    "Usage: gpupool doctor [OPTION...]\n"
    "Look for reasons why a program would not get a GPU here, and say what to do.\n"
    "\n"
    "  --scheduler H:P     else GPUPOOL_SCHEDULER, else the pool of `gpupool up`\n"
    "  --token-file FILE   else GPUPOOL_TOKEN_FILE: the pool's client token\n"
    "\n"
    "Exit status: 0 nothing is wrong, 1 something is.\n";

struct doctor {
    const char *scheduler, *token_file;
    unsigned failures, warnings;
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
    va_list ap;

    d->failures += finding == BAD;
    d->warnings += finding == WARN;
    printf("%s  ", words[finding]);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

static void GP_PRINTF(1, 2) remedy(const char *fmt, ...)
{
    va_list ap;

    fputs("        ", stdout);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
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
        remedy("it is looked for in ../lib/gpupool and ../lib; build or install again");
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

/* ----------------------------------------------------------------- session -- */

static void
check_ticket(struct doctor *d, const char *text)
{
    struct ticket_claims c;
    struct gp_err err = {0};
    uint64_t now = gp_wall_ns() / GP_NS_PER_S;

    if (ticket_peek(text, &c, &err) < 0) {
        say(d, BAD, "ticket: %s", err.msg);
        remedy("start the program with `gpupool run`, which gets a ticket");
    } else if (now >= c.expires) {
        say(d, BAD, "ticket: session %s expired %" PRIu64 " s ago", c.session,
            now - c.expires);
        remedy("is its `gpupool run` still there, and does it reach the scheduler?");
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
        remedy("its session has ended; unset GPUPOOL_SESSION_FILE, use `gpupool run`");
        return;
    }
    if (!stat(path, &st) && st.st_mode & (S_IRWXG | S_IRWXO)) {
        say(d, WARN, "session file: others may read %s, and use the session", path);
        remedy("chmod 600 %s", path);
    }
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "ticket ", 7) != 0)
            continue;
        ticket = line + 7;
        check_ticket(d, ticket);
        return;
    }
    say(d, BAD, "session file: %s holds no ticket", path);
    remedy("it is written by `gpupool run`; see gpupool-session(5)");
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
        remedy("clients attach at %s: a firewall between, or the wrong "
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
        say(d, WARN, "server %s: not connected to the scheduler for %.0f s",
            server->server, server->silent_ms / 1000.0);
        remedy("is gpupool-server running at %s?  Its log says more", server->endpoint);
        return;
    }
    if (server->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DRAINING)
        say(d, WARN, "server %s: draining, takes no new sessions", server->server);
    if (strcmp(server->version, GPUPOOL_VERSION) != 0)
        say(d, WARN, "server %s: version %s, this is %s", server->server,
            server->version, GPUPOOL_VERSION);
    check_endpoint(d, server);
}

static void
check_room(struct doctor *d, const Gpupool__Ctl__CtlStatusReply *status)
{
    uint64_t memory = 0;
    uint32_t core = 0;

    for (size_t i = 0; i < status->n_servers; i++) {
        const Gpupool__Ctl__CtlServerStatus *s = status->servers[i];

        for (size_t k = 0;
             s->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_ALIVE && k < s->n_cards;
             k++) {
            const Gpupool__Ctl__CtlCardStatus *c = s->cards[k];

            if (c->core_given <= 100 && c->slices < c->slices_max)
                core = gp_max(core, 100 - c->core_given);
            memory = gp_max(memory, c->card->memory_bytes - c->memory_given);
        }
    }
    if (core)
        say(d, GOOD, "room: a card with %u %% core free, one with %.2f GiB", core,
            (double)memory / (1024.0 * 1024 * 1024));
    else {
        say(d, WARN, "room: no card has core left");
        remedy("`gpupool status` says who holds it");
    }
}

static void
check_pool(struct doctor *d)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP_FREE char *token = NULL;
    char address[GP_NET_NAME_MAX];
    struct gp_err err = {0};
    uint64_t start = gp_now_ns();
    int r = cli_token(d->token_file, &token, &err);

    if (!r)
        r = cli_scheduler_address(d->scheduler, address, &err);
    if (!r)
        r = cli_ctl_status(d->scheduler, token, &reply, &err);
    if (r < 0) {
        say(d, BAD, "scheduler: %s", gp_err_msg(&err, r));
        remedy("start one (`gpupool up`), or give the right address in "
               "GPUPOOL_SCHEDULER or --scheduler");
        return;
    }
    say(d, GOOD, "scheduler: %s answers in %.1f ms, key %s", address,
        (double)(gp_now_ns() - start) / 1e6, reply->status->scheduler_key_id);
    if (strcmp(reply->status->version, GPUPOOL_VERSION) != 0)
        say(d, WARN, "scheduler: version %s, this is %s", reply->status->version,
            GPUPOOL_VERSION);
    if (!reply->status->n_servers) {
        say(d, BAD, "servers: none has registered");
        remedy("start gpupool-server --scheduler %s on a host with cards", address);
        return;
    }
    for (size_t i = 0; i < reply->status->n_servers; i++)
        check_server(d, reply->status->servers[i]);
    check_room(d, reply->status);
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
        remedy("unset GPUPOOL_TRANSPORT");
        return;
    }
    say(d, GOOD, "transport: %s; this host has %s", want,
        access("/sys/class/infiniband", F_OK) ? "no RDMA devices"
                                              : "RDMA devices (/sys/class/infiniband)");
}

int
cli_doctor(int argc, char **argv)
{
    enum { OPT_SCHEDULER = 256, OPT_TOKEN, OPT_HELP };
    static const struct option options[] = {
        {"scheduler", required_argument, NULL, OPT_SCHEDULER},
        {"token-file", required_argument, NULL, OPT_TOKEN},
        {"help", no_argument, NULL, OPT_HELP},
        {NULL, 0, NULL, 0},
    };
    struct doctor d = {0};
    int opt;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt == OPT_SCHEDULER)
            d.scheduler = optarg;
        else if (opt == OPT_TOKEN)
            d.token_file = optarg;
        else if (opt == OPT_HELP) {
            fputs(HELP, stdout);
            return CLI_OK;
        } else
            return CLI_USAGE;
    }
    printf("gpupool %s\n", GPUPOOL_VERSION);
    check_library(&d);
    check_pool(&d);
    check_session(&d);
    check_transport(&d);
    printf("%u problems, %u warnings\n", d.failures, d.warnings);
    return d.failures ? CLI_FAILED : CLI_OK;
}
