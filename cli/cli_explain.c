/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_explain.h"

#include "cli.h"
#include "cli_list.h"
#include "cli_transport.h"
#include "cli_want.h"
#include "gp_err.h"

#include <stdio.h>
#include <string.h>

static int
explain_answer(int r, const Gpupool__Ctl__CtlReply *reply, const struct gp_err *err)
{
    if (reply && reply->error) {
        printf("refused: %s\n", reply->error->words);
        cli_print_reasons(stdout, false, reply->error->reasons, reply->error->n_reasons,
                          reply->error->reasons_left_off);
        return cli_ctl_exit(r, reply);
    }
    if (r < 0)
        return cli_fail(cli_ctl_exit(r, reply), "explain: %s", gp_err_msg(err, r));
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_GRANT)
        return cli_fail(CLI_FAILED, "explain: the scheduler answered something else");
    printf("%s\n", reply->grant->session);
    cli_print_reasons(stdout, false, reply->grant->reasons, reply->grant->n_reasons,
                      reply->grant->reasons_left_off);
    return CLI_OK;
}

static bool
explain_is_choice(const Gpupool__Ctl__CtlReason *reason)
{
    return strncmp(reason->words, "chosen", 6) == 0;
}

/* What programs would go over to @server. */
static void
explain_transport(struct cli_list *list, const char *server)
{
    const struct cli_filters filters = {.server = server};
    const Gpupool__Ctl__CtlListReply *page;
    struct gp_err err = {0};
    int r;

    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, &filters);
    r = cli_list_next(list, &page, &err);
    if (r > 0 && page->n_servers)
        cli_transport_explain(page->servers[0]);
    else
        cli_fail(0, "explain: how %s is reached is not known: %s", server,
                 r < 0 ? gp_err_msg(&err, r) : "it has left the pool");
}

/* To each server of the placement, once. */
static void
explain_transports(struct cli_list *list, const Gpupool__Ctl__CtlGrant *grant)
{
    for (size_t i = 0; i < grant->n_reasons; i++) {
        const char *server = grant->reasons[i]->server;
        size_t k = 0;

        if (!explain_is_choice(grant->reasons[i]))
            continue;
        while (k < i && !(explain_is_choice(grant->reasons[k]) &&
                          strcmp(grant->reasons[k]->server, server) == 0))
            k++;
        if (k == i)
            explain_transport(list, server);
    }
}

int
cli_explain_want(struct cli_want *want)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    struct gp_err err = {0};
    int r = cli_list_open(&list, want->where.scheduler, want->token, &err);

    want->open.token = cli_ctl_shown(want->token);
    want->open.explain = true;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = &want->open;
    if (!r)
        r = cli_ctl_call(&list.ctl, &req, CLI_DEADLINE_NS, &reply, &err);
    r = explain_answer(r, reply, &err);
    if (r == CLI_OK)
        explain_transports(&list, reply->grant);
    return r;
}

int
cli_explain(int argc, char **argv)
{
    CLEANUP(cli_want_fini) struct cli_want want;
    const struct gp_option_set_of sets[] = {cli_want_options(&want),
                                            cli_where_client(&want.where)};
    const struct gp_options options = {
        .program = "gpupool explain",
        .about = "Say where a session would be placed now, and why not elsewhere.  "
                 "Takes nothing.",
        .after =
            "Exit status: 0 it fits, 2 bad usage, 3 it does not, 4 no scheduler.\n",
        .env = CLI_WANT_ENV,
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };
    struct gp_err err = {0};
    int first, r;

    cli_want_init(&want);
    r = cli_options(&options, argc, argv, &first);
    if (r >= 0)
        return r;
    r = cli_want_finish(&want, &err);
    if (r < 0)
        return cli_fail(cli_want_exit(r), "explain: %s", gp_err_msg(&err, r));
    return cli_explain_want(&want);
}
