/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool explain, drain, close: single questions and orders to the scheduler. */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_transport.h"
#include "cli_want.h"
#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------- explain -- */

static const char EXPLAIN_HELP[] =
    "Usage: gpupool explain [OPTION...]\n"
    "Say where a session would be placed now, and why not elsewhere.  Takes nothing.\n"
    "\n" CLI_WANT_HELP "\n"
    "Exit status: 0 it fits, 3 it does not.\n";

enum {
    OPT_HELP = 256,
    OPT_UNDO,
    OPT_SCHEDULER,
    OPT_TOKEN,
};

static int
explain_answer(int r, const Gpupool__Ctl__CtlReply *reply, const struct gp_err *err)
{
    if (reply && reply->error) {
        printf("refused: %s\n", reply->error->words);
        cli_print_reasons(stdout, reply->error->reasons, reply->error->n_reasons,
                          reply->error->reasons_left_off);
        return CLI_REFUSED;
    }
    if (r < 0)
        return cli_fail(CLI_NO_POOL, "explain: %s", gp_err_msg(err, r));
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_GRANT)
        return cli_fail(CLI_FAILED, "explain: the scheduler answered something else");
    printf("%s\n", reply->grant->session);
    cli_print_reasons(stdout, reply->grant->reasons, reply->grant->n_reasons,
                      reply->grant->reasons_left_off);
    return CLI_OK;
}

static bool
explain_chose(const Gpupool__Ctl__CtlGrant *grant, const char *server)
{
    for (size_t i = 0; i < grant->n_reasons; i++)
        if (strcmp(grant->reasons[i]->server, server) == 0 &&
            strncmp(grant->reasons[i]->words, "chosen", 6) == 0)
            return true;
    return false;
}

/* What programs would go over, to each server of the placement. */
static void
explain_transports(struct cli_ctl *ctl, const struct cli_want *want,
                   const Gpupool__Ctl__CtlGrant *grant)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlStatus body = GPUPOOL__CTL__CTL_STATUS__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;

    body.token = cli_ctl_shown(want->token);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &body;
    if (cli_ctl_call(ctl, &req, CLI_DEADLINE_NS, &reply, NULL) < 0 ||
        reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_STATUS)
        return;
    for (size_t i = 0; i < reply->status->n_servers; i++)
        if (explain_chose(grant, reply->status->servers[i]->server))
            cli_transport_explain(reply->status->servers[i]);
}

static int
explain_ask(struct cli_want *want)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.fd = -1};
    struct gp_err err = {0};
    int r = cli_ctl_open(&ctl, want->scheduler, &err);

    if (!r)
        r = cli_ctl_prove(&ctl, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT, want->token,
                          &err);
    want->open.token = cli_ctl_shown(want->token);
    want->open.explain = true;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = &want->open;
    if (!r)
        r = cli_ctl_call(&ctl, &req, CLI_DEADLINE_NS, &reply, &err);
    r = explain_answer(r, reply, &err);
    if (r == CLI_OK)
        explain_transports(&ctl, want, reply->grant);
    return r;
}

int
cli_explain(int argc, char **argv)
{
    static const struct option options[] = {
        CLI_WANT_OPTIONS,
        {"help", no_argument, NULL, OPT_HELP},
        {NULL, 0, NULL, 0},
    };
    CLEANUP(cli_want_fini) struct cli_want want;
    struct gp_err err = {0};
    int opt, r = 0;

    cli_want_init(&want);
    while (!r && (opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt == OPT_HELP) {
            fputs(EXPLAIN_HELP, stdout);
            return CLI_OK;
        }
        r = cli_want_option(&want, opt, optarg, &err);
    }
    if (!r && optind < argc)
        r = gp_err_set(&err, -EINVAL, "%s: unexpected argument", argv[optind]);
    if (!r)
        r = cli_want_finish(&want, &err);
    if (r < 0)
        return cli_fail(CLI_USAGE, "explain: %s", gp_err_msg(&err, r));
    return explain_ask(&want);
}

/* ------------------------------------------------------------ drain, close -- */

static const struct option ORDER_OPTIONS[] = {
    {"undo", no_argument, NULL, OPT_UNDO},
    {"scheduler", required_argument, NULL, OPT_SCHEDULER},
    {"token-file", required_argument, NULL, OPT_TOKEN},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

#define ORDER_HELP                                                                     \
    "  --scheduler H:P     else GPUPOOL_SCHEDULER, else the pool of `gpupool up`\n"    \
    "  --token-file FILE   else GPUPOOL_TOKEN_FILE: the pool's admin token; the\n"     \
    "                      local pool knows its own user without one\n"

struct order {
    const char *name, *help;
    const char *scheduler, *token_file, *target;
    char *token;
    bool undo;
};

/* 0: go on; else *ret_status is the exit status. */
static int
order_parse(struct order *order, int argc, char **argv, int *ret_status)
{
    struct gp_err err = {0};
    int opt, r = 0;

    while (!r && (opt = getopt_long(argc, argv, "", ORDER_OPTIONS, NULL)) != -1) {
        if (opt == OPT_UNDO)
            order->undo = true;
        else if (opt == OPT_SCHEDULER)
            order->scheduler = optarg;
        else if (opt == OPT_TOKEN)
            order->token_file = optarg;
        else if (opt == OPT_HELP) {
            fputs(order->help, stdout);
            *ret_status = CLI_OK;
            return 1;
        } else
            r = -EINVAL;
    }
    if (r < 0 || optind + 1 != argc) {
        *ret_status = cli_fail(CLI_USAGE, "%s: bad usage, see gpupool %s --help",
                               order->name, order->name);
        return 1;
    }
    order->target = argv[optind];
    r = cli_token(order->token_file, order->scheduler, CLI_TOKEN_ADMIN, &order->token,
                  &err);
    if (r < 0)
        *ret_status = cli_fail(CLI_FAILED, "%s: %s", order->name, gp_err_msg(&err, r));
    return r < 0;
}

static int
order_send(const struct order *order, Gpupool__Ctl__CtlRequest *req,
           Gpupool__Ctl__CtlReply **ret_reply)
{
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.fd = -1};
    struct gp_err err = {0};
    char address[GP_NET_NAME_MAX];
    int r = cli_order_address(order->scheduler, address, &err);

    if (!r)
        r = cli_ctl_open(&ctl, address, &err);
    if (!r)
        r = cli_ctl_prove(&ctl, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_ADMIN, order->token,
                          &err);

    if (!r)
        r = cli_ctl_call(&ctl, req, CLI_DEADLINE_NS, ret_reply, &err);
    return r < 0 ? cli_fail(CLI_FAILED, "%s: %s", order->name, gp_err_msg(&err, r))
                 : CLI_OK;
}

static int
drain_send(const struct order *order)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlDrain body = GPUPOOL__CTL__CTL_DRAIN__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int status;

    body.server = (char *)order->target;
    body.token = cli_ctl_shown(order->token);
    body.undo = order->undo;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_DRAIN;
    req.drain = &body;
    status = order_send(order, &req, &reply);
    if (status)
        return status;
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_DRAINED)
        return cli_fail(CLI_FAILED, "drain: the scheduler answered something else");
    printf("server %s: %s, %u sessions there\n", order->target,
           order->undo ? "in use again" : "draining, no new sessions",
           reply->drained->sessions_left);
    return CLI_OK;
}

int
cli_drain(int argc, char **argv)
{
    struct order order = {
        .name = "drain",
        .help = "Usage: gpupool drain [OPTION...] SERVER\n"
                "Place no more sessions on SERVER; those it has run on.\n"
                "\n"
                "  --undo              use it again\n" ORDER_HELP,
    };
    int status;

    if (!order_parse(&order, argc, argv, &status))
        status = drain_send(&order);
    free(order.token);
    return status;
}

static int
close_send(const struct order *order)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose body = GPUPOOL__CTL__CTL_CLOSE__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    const char *number = order->target + (order->target[0] == 's');
    int status;

    if (gp_str_u64(number, 1, INT64_MAX, &body.session_id) < 0)
        return cli_fail(CLI_USAGE,
                        "close: %s is no session, which are called s1, s2, ...",
                        order->target);
    body.token = cli_ctl_shown(order->token);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &body;
    status = order_send(order, &req, &reply);
    if (!status)
        printf("session %s closed\n", order->target);
    return status;
}

int
cli_close(int argc, char **argv)
{
    struct order order = {
        .name = "close",
        .help = "Usage: gpupool close [OPTION...] SESSION\n"
                "End a session: its processes lose their GPU at once.\n"
                "\n" ORDER_HELP,
    };
    int status;

    if (!order_parse(&order, argc, argv, &status))
        status = close_send(&order);
    free(order.token);
    return status;
}
