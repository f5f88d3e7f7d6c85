/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool run: a program on a slice of a card. */
#include "cli_run.h"

#include "cli.h"
#include "cli_child.h"
#include "cli_explain.h"
#include "cli_jax.h"
#include "cli_keepalive_process.h"
#include "cli_list.h"
#include "cli_output.h"
#include "cli_session.h"
#include "cli_transport.h"
#include "cli_wait.h"
#include "gp_err.h"
#include "gp_loop.h"
#include "gp_private.h"
#include "gp_str.h"
#include "ticket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct run {
    struct cli_run_request *request;
    struct cli_session session;
    struct cli_child child;
    struct cli_keepalive_process keepalive;
    struct gp_loop *loop;
};

/* ----------------------------------------------------------------- options -- */

static const struct gp_option TIME_MAX = {.min = 1, .max = UINT32_MAX};

/* --wait without a time: no limit. */
static int
set_wait(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct cli_run_request *request = target;
    uint64_t ms = 0;
    int r = *value && strcmp(value, "yes") != 0
                ? gp_option_time(&ms, &TIME_MAX, value, err)
                : 0;

    (void)option;
    request->wait = r == 0;
    request->wait_ms = (uint32_t)ms;
    return r;
}

/* NAME:N */
static int
set_gang(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct cli_run_request *request = target;
    const char *colon = strrchr(value, ':');
    uint64_t n;

    (void)option;
    if (!colon || colon == value || gp_str_u64(colon + 1, 2, 1000, &n) < 0 ||
        (size_t)(colon - value) >= sizeof(request->gang))
        return gp_err_set(err, -EINVAL,
                          "NAME:N is wanted, a name and the number of members");
    snprintf(request->gang, sizeof(request->gang), "%.*s", (int)(colon - value), value);
    request->want.open.gang = request->gang;
    request->want.open.gang_size = (uint32_t)n;
    request->wait = true;
    return 0;
}

/* NAME=VALUE; a NAME alone would be a variable that the program has anyhow. */
static int
set_variable(void *target, const struct gp_option *option, const char *value,
             struct gp_err *err)
{
    struct cli_run_request *request = target;

    (void)option;
    if (!strchr(value, '=') || value[0] == '=')
        return gp_err_set(err, -EINVAL, "NAME=VALUE is wanted");
    if (request->n_variables == CLI_RUN_VARIABLES_MAX)
        return gp_err_set(err, -EINVAL, "more than %d of them", CLI_RUN_VARIABLES_MAX);
    request->variables[request->n_variables++] = value;
    return 0;
}

static const struct gp_option WAIT = {
    .name = "wait",
    .value = "TIME",
    .optional = true,
    .help = "when nothing fits now, wait for room (--wait=30s, 10m, 2h; else for as "
            "long as it takes) and say how it stands; without it, fail at once",
    .set = set_wait};
static const struct gp_option WAIT_DETACHED = {
    .name = "wait",
    .value = "TIME",
    .optional = true,
    .help = "wait for room for so long at most (--wait=30s, 10m, 2h); without it, for "
            "as long as it takes",
    .set = set_wait};

static const struct gp_option OPTIONS[] = {
    {.name = "name",
     .value = "NAME",
     .help = "what `gpupool sessions` and the queue show instead of the program's name",
     .set = gp_option_text,
     .offset = offsetof(struct cli_run_request, name)},
    {.name = "env",
     .value = "NAME=VALUE",
     .help = "a variable for the program; may be given several times",
     .several = true,
     .set = set_variable},
    {.name = "dry-run",
     .help =
         "say where the session would be placed, as `gpupool explain` does, and run "
         "nothing",
     .set = gp_option_yes,
     .offset = offsetof(struct cli_run_request, dry_run)},
    {.name = "gang",
     .value = "NAME:N",
     .help =
         "begin together with N - 1 other `gpupool run` of the same owner and gang, "
         "or not at all; waits as --wait does",
     .set = set_gang},
    {.name = "time",
     .value = "TIME",
     .help =
         "the session ends after so long, which lets others be told when there will "
         "be room",
     .set = gp_option_time,
     .min = 1,
     .max = UINT32_MAX,
     .offset = offsetof(struct cli_run_request, want.open.run_ms)},
    {.name = "verbose",
     .letter = 'v',
     .help = "say which slice of which card it got, and what the program goes over",
     .set = gp_option_yes,
     .offset = offsetof(struct cli_run_request, verbose)},
    {.name = "keep-ptx",
     .help =
         "for software cards: the program's compilers (Triton, JAX, Mojo, CuPy, NVRTC "
         "where it is linked) leave PTX as it is, which such a card runs, and make no "
         "machine code",
     .set = gp_option_yes,
     .offset = offsetof(struct cli_run_request, keep_ptx)},
    {.name = "check-exit",
     .value = "N",
     .help = "exit with N, 1 to 255, when PROGRAM ends well and a card that checks "
             "kernels (SOFTGPU_CHECK of its server) has found something",
     .set = gp_option_u32,
     .min = 1,
     .max = 255,
     .offset = offsetof(struct cli_run_request, check_exit)},
    {.name = "unbound-ticket",
     .help = "for a libcuda.so.1 that is older than this command: anybody who has the "
             "ticket can use it; servers refuse that by default",
     .set = gp_option_yes,
     .offset = offsetof(struct cli_run_request, unbound)},
};

unsigned
cli_run_sets(struct cli_run_request *request, struct gp_option_set_of *sets)
{
    sets[0] = cli_want_options(&request->want);
    sets[1] = (struct gp_option_set_of){request->detached ? &WAIT_DETACHED : &WAIT, 1,
                                        request};
    sets[2] = (struct gp_option_set_of){OPTIONS, ARRAY_SIZE(OPTIONS), request};
    sets[3] = cli_where_client(&request->want.where);
    return CLI_RUN_SETS;
}

int
cli_run_parse(struct cli_run_request *request, const char *program, const char *about,
              const char *after, int argc, char **argv)
{
    struct gp_option_set_of sets[CLI_RUN_SETS];
    const struct gp_options options = {
        .program = program,
        .arguments = "[--] PROGRAM [ARG...]",
        .arguments_complete = GP_COMPLETE_PROGRAM,
        .about = about,
        .after = after,
        .env = CLI_WANT_ENV,
        .first_ends = true,
        .sets = sets,
        .n_sets = cli_run_sets(request, sets),
    };
    int first, status = cli_options(&options, argc, argv, &first);

    if (status >= 0)
        return status;
    if (first == argc && !request->dry_run)
        return cli_fail(CLI_USAGE, "%s: which program? see %s --help",
                        program + strlen("gpupool "), program);
    request->program = &argv[first];
    return -1;
}

/* ----------------------------------------------------------------- session -- */

/* What the pool said, with the reasons per card. */
static int
refused(const struct cli_want *want, const Gpupool__Ctl__CtlReply *reply,
        const struct gp_err *err)
{
    cli_fail(0, "run: %s", err->msg);
    cli_print_reasons(stderr, true, reply->error->reasons, reply->error->n_reasons,
                      reply->error->reasons_left_off);
    cli_want_say_decimal(want, reply->error->words, stderr);
    return reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST ? CLI_USAGE
                                                                         : CLI_REFUSED;
}

/* What the program will go over to each of its servers, as far as can be told before.
 */
static void
say_transports(const struct run *run)
{
    const struct cli_want *want = &run->request->want;
    const struct cli_filters session = {.session = run->session.name};
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    const Gpupool__Ctl__CtlListReply *page = NULL;
    char servers[TICKET_SLICES_MAX][CTL_NAME_MAX], words[CLI_TRANSPORT_TEXT];
    size_t n = 0;

    if (cli_list_first(&list, want->where.scheduler, want->token,
                       GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS, &session, &page,
                       NULL) < 0 ||
        page->n_sessions != 1)
        return;
    for (size_t i = 0; i < page->sessions[0]->n_slices && n < TICKET_SLICES_MAX; i++) {
        const char *name = page->sessions[0]->slices[i]->server;

        if (!n || strcmp(servers[n - 1], name) != 0) /* they come server by server */
            n += gp_str_copy(servers[n], sizeof(servers[n]), name);
    }
    for (size_t i = 0; i < n; i++)
        if (cli_transport_find(&list, servers[i], words) == 0)
            cli_fail(0, "session %s: %s over %s", run->session.name, servers[i], words);
}

static int
open_session(struct run *run)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *refusal = NULL;
    struct gp_err err = {0};
    struct cli_wait wait;
    int r;

    run->request->want.open.program =
        run->request->name ? (char *)run->request->name : run->request->program[0];
    run->request->want.open.hold = true;
    cli_wait_init(&wait, run->request->wait, run->request->wait_ms,
                  run->child.signals.fd);
    r = cli_session_open(&run->session, run->request->want.where.scheduler,
                         &run->request->want.open, !run->request->unbound, &wait,
                         &refusal, &err);
    if (r == -EINTR)
        return cli_fail(128 + wait.signo, "run: %s", err.msg);
    if (r < 0 && refusal)
        return refused(&run->request->want, refusal, &err);
    if (r < 0)
        return cli_fail(cli_ctl_exit(r, NULL), "run: %s", gp_err_msg(&err, r));
    if (run->request->verbose)
        cli_fail(0, "session %s%s%s: %s; lease %u ms, file %s", run->session.name,
                 *run->session.pool ? " of pool " : "", run->session.pool,
                 run->session.placed, run->session.lease_ms, run->session.file);
    if (run->request->verbose && !*run->session.pool)
        say_transports(run);
    if (run->request->began)
        run->request->began(run->request->began_arg, run->session.name);
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

/* Triton, Mojo and MAX ask for ptxas by its path, JAX for a toolkit, where XLA looks
 * first, CuPy can do without, and a library stands in front of NVRTC. */
static int
set_keep_ptx(const char *lib)
{
    const char *before = getenv("LD_PRELOAD");
    CLEANUP_FREE char *toolkit = gp_str_printf("%s/ptx", lib);
    CLEANUP_FREE char *ptxas = gp_str_printf("%s/ptx/bin/ptxas", lib);
    CLEANUP_FREE char *nvrtc = gp_str_printf("%s/libgpupool-nvrtc.so.1", lib);
    CLEANUP_FREE char *preload =
        gp_str_printf("%s%s%s", nvrtc ? nvrtc : "", before && *before ? ":" : "",
                      before ? before : "");

    if (ptxas && access(ptxas, X_OK) < 0)
        return cli_fail(CLI_FAILED, "run: --keep-ptx: %s: %s", ptxas, strerror(errno));
    if (nvrtc && access(nvrtc, R_OK) < 0)
        return cli_fail(CLI_FAILED, "run: --keep-ptx: %s: %s", nvrtc, strerror(errno));
    if (!toolkit || !ptxas || !nvrtc || !preload ||
        setenv("LD_PRELOAD", preload, 1) < 0 ||
        setenv("TRITON_PTXAS_PATH", ptxas, 1) < 0 ||
        setenv("TRITON_PTXAS_BLACKWELL_PATH", ptxas, 1) < 0 ||
        setenv("MODULAR_NVPTX_COMPILER_PATH", ptxas, 1) < 0 ||
        setenv("CUDA_ROOT", toolkit, 1) < 0 ||
        setenv("CUPY_COMPILE_WITH_PTX", "1", 1) < 0)
        return cli_fail(CLI_FAILED, "run: out of memory");
    return CLI_OK;
}

/* The user's own come last: they may change what we have set. */
static int
set_variables(const struct cli_run_request *request)
{
    for (unsigned i = 0; i < request->n_variables; i++) {
        const char *text = request->variables[i], *value = strchr(text, '=') + 1;
        CLEANUP_FREE char *name = strndup(text, (size_t)(value - text - 1));

        if (!name || setenv(name, value, 1) < 0)
            return cli_fail(CLI_FAILED, "run: --env %s: %s", text, strerror(errno));
    }
    return CLI_OK;
}

/* The program finds our libcuda.so.1 before any other. */
static int
set_environment(const struct run *run)
{
    CLEANUP_FREE char *lib = cli_path_lib(), *path = NULL;
    const char *old = getenv("LD_LIBRARY_PATH");
    int status;

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
    status = run->request->keep_ptx ? set_keep_ptx(lib) : CLI_OK;
    return status ? status : set_variables(run->request);
}

static int
run_program(struct run *run)
{
    struct gp_err err = {0};
    int r;

    cli_jax_hint(run->request->program[0]);
    r = cli_child_start(&run->child, run->request->program, &err);

    if (r < 0)
        return cli_fail(r == -ENOENT ? CLI_NOT_FOUND : CLI_NO_EXEC, "run: %s", err.msg);
    r = cli_keepalive_process_start(&run->keepalive, &run->session, run->loop, &err);
    if (r < 0)
        cli_fail(0, "run: the session cannot be kept alive: %s", gp_err_msg(&err, r));
    r = gp_loop_run(run->loop);
    return r < 0 ? cli_fail(CLI_FAILED, "run: %s", strerror(-r))
                 : cli_child_exit(&run->child);
}

int
cli_run_check_program(const struct cli_run_request *request, const char *command)
{
    int status = cli_child_check(command, request->program[0]);
    uint64_t ms;

    if (status && request->wait && !request->wait_ms &&
        gp_option_time(&ms, &TIME_MAX, request->program[0], NULL) == 0)
        cli_fail(0, "%s: a time to wait is written --wait=%s", command,
                 request->program[0]);
    return status;
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
    if (!run->request->reports)
        gp_private_begin(&run->child.core);
    status = set_path();
    if (!status)
        status = cli_run_check_program(run->request, "run");
    if (!status)
        status = open_session(run);
    if (!status)
        status = set_environment(run);
    if (!status)
        status = run_program(run);
    cli_keepalive_process_stop(&run->keepalive);
    cli_session_close(&run->session, status);
    if (status == CLI_OK && run->session.found)
        status = (int)run->request->check_exit;
    cli_child_fini(&run->child);
    return status;
}

int
cli_run_program(struct cli_run_request *request)
{
    struct run run = {
        .request = request, .session.ctl.link.fd = -1, .child.signals.fd = -1};
    struct gp_err err = {0};
    static const struct cli_output text = {.form = CLI_FORM_TEXT};
    int r = cli_want_finish(&request->want, &err), status;

    if (r < 0)
        return cli_fail(cli_want_exit(r), "run: %s", gp_err_msg(&err, r));
    if (request->dry_run)
        return cli_explain_want(&request->want, &text);
    status = run_in_session(&run);
    gp_loop_free(run.loop);
    return status;
}

int
cli_run(int argc, char **argv)
{
    struct cli_run_request request = {.wait = false};
    int status;

    cli_want_init(&request.want);
    status = cli_run_parse(
        &request, "gpupool run",
        "Run PROGRAM with a slice of a card of the pool as its GPU.",
        "The session is held while PROGRAM runs and given back when it ends.  Exit "
        "status:\n"
        "PROGRAM's own (128 + N when signal N killed it), --check-exit; 2 bad usage, 3 "
        "refused\n"
        "by the pool, 4 no scheduler, 126 and 127 PROGRAM cannot be started.\n"
        "When PROGRAM's session was lost or ended, the last line on stderr says "
        "why.\n"
        "JAX needs a file in /dev that a slice does not have: where PROGRAM is a "
        "Python "
        "that\n"
        "has JAX with CUDA, a line on stderr says so and what to do "
        "(JAX_PLATFORMS=cpu: not).\n",
        argc, argv);
    if (status < 0)
        status = cli_run_program(&request);
    cli_want_fini(&request.want);
    return status;
}
