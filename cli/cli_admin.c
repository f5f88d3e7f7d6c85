/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool drain, close: orders to the scheduler. */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_options.h"
#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------ drain, close -- */

struct order {
    const char *program, *about; /* "gpupool drain" */
    const char *argument, *complete;
    struct cli_where where;
    const char *target;
    char *token;
    bool undo;
};

/* The word after "gpupool ". */
static const char *
order_name(const struct order *order)
{
    return strchr(order->program, ' ') + 1;
}

/* -1: go on; else the exit status.  @own: an option that other orders do not have. */
static int
order_parse(struct order *order, const struct gp_option *own, int argc, char **argv)
{
    const struct gp_option_set_of sets[] = {{own, own ? 1 : 0, order},
                                            cli_where_admin(&order->where)};
    const struct gp_options options = {.program = order->program,
                                       .arguments = order->argument,
                                       .arguments_complete = order->complete,
                                       .about = order->about,
                                       .sets = sets,
                                       .n_sets = ARRAY_SIZE(sets)};
    struct gp_err err = {0};
    int first, r = cli_options(&options, argc, argv, &first);

    if (r >= 0)
        return r;
    if (first + 1 != argc)
        return cli_fail(CLI_USAGE, "%s: one %s is wanted, see %s --help",
                        order_name(order), order->argument, order->program);
    order->target = argv[first];
    r = cli_token(order->where.token_file, order->where.scheduler, CLI_TOKEN_ADMIN,
                  &order->token, &err);
    return r < 0
               ? cli_fail(CLI_FAILED, "%s: %s", order_name(order), gp_err_msg(&err, r))
               : -1;
}

static int
order_send(const struct order *order, Gpupool__Ctl__CtlRequest *req,
           Gpupool__Ctl__CtlReply **ret_reply)
{
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.link.fd = -1};
    struct gp_err err = {0};
    char address[GP_NET_NAME_MAX];
    int r = cli_order_address(order->where.scheduler, address, &err);

    if (!r)
        r = cli_ctl_open(&ctl, address, &err);
    if (!r)
        r = cli_ctl_prove(&ctl, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_ADMIN, order->token,
                          &err);

    if (!r)
        r = cli_ctl_call(&ctl, req, CLI_DEADLINE_NS, ret_reply, &err);
    return r < 0 ? cli_fail(cli_ctl_exit(r, *ret_reply), "%s: %s", order_name(order),
                            gp_err_msg(&err, r))
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
    if (order->undo || reply->drained->sessions_left)
        printf("server %s: %s, %u sessions there\n", order->target,
               order->undo ? "in use again" : "draining, no new sessions",
               reply->drained->sessions_left);
    else
        printf("server %s: drained, no sessions there and no new ones\n",
               order->target);
    return CLI_OK;
}

int
cli_drain(int argc, char **argv)
{
    static const struct gp_option undo = {.name = "undo",
                                          .help = "use it again",
                                          .set = gp_option_yes,
                                          .offset = offsetof(struct order, undo)};
    struct order order = {
        .program = "gpupool drain",
        .argument = "SERVER",
        .complete = "servers",
        .about = "Place no more sessions on SERVER; those it has run on.",
    };
    int status = order_parse(&order, &undo, argc, argv);

    if (status < 0)
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
        .program = "gpupool close",
        .argument = "SESSION",
        .complete = "sessions",
        .about = "End a session: its processes lose their GPU at once.",
    };
    int status = order_parse(&order, NULL, argc, argv);

    if (status < 0)
        status = close_send(&order);
    free(order.token);
    return status;
}
