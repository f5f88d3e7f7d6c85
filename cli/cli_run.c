/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool run: a program on a slice of a card. */
#include "cli.h"
#include "cli_child.h"
#include "cli_keeper.h"
#include "cli_session.h"
#include "cli_wait.h"
#include "cli_want.h"
#include "gp_err.h"
#include "gp_loop.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char HELP[] =
    "Usage: gpupool run [OPTION...] [--] PROGRAM [ARG...]\n"
    "Run PROGRAM with a slice of a card of the pool as its GPU.\n"
    "\n" CLI_WANT_HELP "  --wait[=TIME]       when nothing fits now, wait for room "
    "(for 30s, 10m, 2h; else\n"
    "                      for as long as it takes) and say how it stands; without "
    "it,\n"
    "                      fail at once\n"
    "  --time TIME         the session ends after so long, which lets others be told\n"
    "                      when there will be room\n"
    "  --verbose           say which slice of which card it got\n"
    "  --unbound-ticket    for a libcuda.so.1 that is older than this command: "
    "anybody\n"
    "                      who has the ticket can use it; servers refuse that by "
    "default\n"
    "\n"
    "The session is held while PROGRAM runs and given back when it ends.  Exit "
    "status:\n"
    "PROGRAM's own (128 + N when signal N killed it); 2 bad usage, 3 refused by the "
    "pool,\n"
    "4 no scheduler, 126 and 127 PROGRAM cannot be started.\n"
    "When PROGRAM's session was lost or ended, the last line on stderr says why.\n";

enum {
    OPT_HELP = 256,
    OPT_VERBOSE,
    OPT_UNBOUND,
    OPT_WAIT,
    OPT_TIME,
};

static const struct option OPTIONS[] = {
    CLI_WANT_OPTIONS,
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"wait", optional_argument, NULL, OPT_WAIT},
    {"time", required_argument, NULL, OPT_TIME},
    {"unbound-ticket", no_argument, NULL, OPT_UNBOUND},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct run {
    struct cli_want want;
    struct cli_session session;
    struct cli_child child;
    struct cli_keeper keeper;
    struct gp_loop *loop;
    char **program;
    bool verbose, unbound, wait;
    uint32_t wait_ms;
};

/* @arg NULL: no limit. */
static int
take_time(const char *name, const char *arg, uint64_t *ret_ms, struct gp_err *err)
{
    *ret_ms = 0;
    if (arg && (cli_want_time(arg, ret_ms) < 0 || !*ret_ms || *ret_ms > UINT32_MAX))
        return gp_err_set(err, -EINVAL, "--%s %s: a time like 30s, 10m or 2h is wanted",
                          name, arg);
    return 0;
}

static int
take_option(struct run *run, int opt, struct gp_err *err)
{
    uint64_t ms = 0;
    int r;

    switch (opt) {
    case OPT_VERBOSE:
    case 'v':
        run->verbose = true;
        return 0;
    case OPT_UNBOUND:
        run->unbound = true;
        return 0;
    case OPT_WAIT:
        run->wait = true;
        r = take_time("wait", optarg, &ms, err);
        run->wait_ms = (uint32_t)ms;
        return r;
    case OPT_TIME:
        return take_time("time", optarg, &run->want.open.run_ms, err);
    default:
        return cli_want_option(&run->want, opt, optarg, err);
    }
}

/* 0: go on; else *ret_status is the exit status. */
static int
parse(struct run *run, int argc, char **argv, int *ret_status)
{
    struct gp_err err = {0};
    int opt, r = 0;

    while (!r && (opt = getopt_long(argc, argv, "+:hv", OPTIONS, NULL)) != -1) {
        if (opt == OPT_HELP || opt == 'h') {
            fputs(HELP, stdout);
            *ret_status = CLI_OK;
            return 1;
        }
        r = opt == '?' || opt == ':'
                ? gp_err_set(&err, -EINVAL, "%s %s, see gpupool run --help",
                             opt == ':' ? "a value is missing after" : "unknown option",
                             argv[optind - 1])
                : take_option(run, opt, &err);
    }
    if (!r && optind == argc)
        r = gp_err_set(&err, -EINVAL, "which program? see gpupool run --help");
    if (!r)
        r = cli_want_finish(&run->want, &err);
    if (r < 0) {
        *ret_status = cli_fail(CLI_USAGE, "run: %s", gp_err_msg(&err, r));
        return 1;
    }
    run->program = &argv[optind];
    return 0;
}

/* What the pool said, with the reasons per card. */
static int
refused(const Gpupool__Ctl__CtlReply *reply, const struct gp_err *err)
{
    cli_fail(0, "run: %s", err->msg);
    cli_print_reasons(stderr, reply->error->reasons, reply->error->n_reasons,
                      reply->error->reasons_left_off);
    return reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST ? CLI_USAGE
                                                                         : CLI_REFUSED;
}

static int
open_session(struct run *run)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *refusal = NULL;
    struct gp_err err = {0};
    struct cli_wait wait;
    int r;

    run->want.open.program = run->program[0];
    run->want.open.hold = true;
    cli_wait_init(&wait, run->wait_ms, run->child.signals.fd);
    r = cli_session_open(&run->session, run->want.scheduler, &run->want.open,
                         !run->unbound, run->wait ? &wait : NULL, &refusal, &err);
    if (r == -EINTR)
        return cli_fail(128 + wait.signo, "run: %s", err.msg);
    if (r < 0 && refusal)
        return refused(refusal, &err);
    if (r < 0)
        return cli_fail(CLI_NO_POOL, "run: %s", gp_err_msg(&err, r));
    if (run->verbose)
        cli_fail(0, "session %s, lease %u ms, file %s", run->session.name,
                 run->session.lease_ms, run->session.file);
    return CLI_OK;
}

/* The program finds our nvidia-smi where there is no other. */
static int
set_path(void)
{
    const char *old = getenv("PATH");
    CLEANUP_FREE char *lib = cli_path_lib();
    CLEANUP_FREE char *path = gp_str_printf(
        "%s:%s/path", old && *old ? old : "/usr/bin:/bin", lib ? lib : "");

    if (lib && (!path || setenv("PATH", path, 1) < 0))
        return cli_fail(CLI_FAILED, "run: out of memory");
    return CLI_OK;
}

/* The program finds our libcuda.so.1 before any other. */
static int
set_environment(const struct run *run)
{
    CLEANUP_FREE char *lib = cli_path_lib(), *path = NULL;
    const char *old = getenv("LD_LIBRARY_PATH");

    if (!lib)
        return cli_fail(CLI_FAILED,
                        "run: no libcuda.so.1 in ../lib/gpupool or ../lib beside the "
                        "gpupool binary; `gpupool doctor` says more");
    path = old && *old ? gp_str_printf("%s:%s", lib, old) : strdup(lib);
    if (!path || setenv("LD_LIBRARY_PATH", path, 1) < 0 ||
        setenv("GPUPOOL_SESSION_FILE", run->session.file, 1) < 0)
        return cli_fail(CLI_FAILED, "run: out of memory");
    unsetenv("GPUPOOL_SERVER"); /* the file alone decides */
    unsetenv("GPUPOOL_TICKET");
    unsetenv("GPUPOOL_TICKET_SECRET_FILE");
    return CLI_OK;
}

static int
run_program(struct run *run)
{
    struct gp_err err = {0};
    int r = cli_child_start(&run->child, run->program, &err);

    if (r < 0)
        return cli_fail(r == -ENOENT ? CLI_NOT_FOUND : CLI_NO_EXEC, "run: %s", err.msg);
    r = cli_keeper_start(&run->keeper, &run->session, run->loop, &err);
    if (r < 0)
        cli_fail(0, "run: the session cannot be kept alive: %s", gp_err_msg(&err, r));
    r = gp_loop_run(run->loop);
    return r < 0 ? cli_fail(CLI_FAILED, "run: %s", strerror(-r))
                 : cli_child_exit(&run->child);
}

static int
run_in_session(struct run *run)
{
    struct gp_err err = {0};
    int r, status;

    r = gp_loop_new(&run->loop, &err);
    if (!r)
        r = cli_child_init(&run->child, run->loop, &err);
    if (r < 0)
        return cli_fail(CLI_FAILED, "run: %s", gp_err_msg(&err, r));
    status = set_path();
    if (!status)
        status = cli_child_check(run->program[0]);
    if (!status)
        status = open_session(run);
    if (!status)
        status = set_environment(run);
    if (!status)
        status = run_program(run);
    cli_keeper_stop(&run->keeper);
    cli_session_close(&run->session, status);
    cli_child_fini(&run->child);
    return status;
}

int
cli_run(int argc, char **argv)
{
    struct run run = {.session.ctl.link.fd = -1, .child.signals.fd = -1};
    int status;

    cli_want_init(&run.want);
    if (!parse(&run, argc, argv, &status))
        status = run_in_session(&run);
    gp_loop_free(run.loop);
    cli_want_fini(&run.want);
    return status;
}
