/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_explain.h"

#include "cli.h"
#include "cli_list.h"
#include "cli_output.h"
#include "cli_transport.h"
#include "cli_want.h"
#include "gp_err.h"

#include <stdio.h>
#include <string.h>

/* Whether there is room or not, in words for people; what failed is on stderr. */
static int
explain_answer(const struct cli_want *want, const struct cli_output *output, int r,
               const Gpupool__Ctl__CtlReply *reply, const struct gp_err *err)
{
    bool text = output->form < CLI_FORM_JSON;
    bool several = want->open.cards > 1 || want->open.core > 100;

    if (reply && reply->error) {
        if (text) {
            printf("refused: %s\n", reply->error->words);
            cli_print_reasons(stdout, several && output->form != CLI_FORM_WIDE,
                              reply->error->reasons, reply->error->n_reasons,
                              reply->error->reasons_left_off);
            cli_want_say_decimal(want, reply->error->words, stdout);
        }
        return cli_ctl_exit(r, reply);
    }
    if (r < 0)
        return cli_fail(cli_ctl_exit(r, reply), "explain: %s", gp_err_msg(err, r));
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_GRANT)
        return cli_fail(CLI_FAILED, "explain: the scheduler answered something else");
    if (text) {
        printf("%s\n", reply->grant->session);
        cli_print_reasons(stdout, false, reply->grant->reasons, reply->grant->n_reasons,
                          reply->grant->reasons_left_off);
    }
    return CLI_OK;
}

static bool
explain_is_choice(const Gpupool__Ctl__CtlReason *reason)
{
    return strncmp(reason->words, "chosen", 6) == 0;
}

/* What programs would go over to @server: printed, or added to @transports. */
static void
explain_transport(struct cli_list *list, const char *server, json_t *transports)
{
    const struct cli_filters filters = {.server = server};
    const Gpupool__Ctl__CtlListReply *page;
    struct gp_err err = {0};
    int r;

    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, &filters);
    r = cli_list_next(list, &page, &err);
    if (r <= 0 || !page->n_servers)
        cli_fail(0, "explain: how %s is reached is not known: %s", server,
                 r < 0 ? gp_err_msg(&err, r) : "it has left the pool");
    else if (transports)
        json_array_append_new(transports, cli_transport_json(page->servers[0]));
    else
        cli_transport_explain(page->servers[0]);
}

/* To each server of the placement, once. */
static void
explain_transports(struct cli_list *list, const Gpupool__Ctl__CtlGrant *grant,
                   json_t *transports)
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
            explain_transport(list, server, transports);
    }
}

/* The same answer for programs; @transports is taken. */
static int
explain_document(const struct cli_output *output, const Gpupool__Ctl__CtlReply *reply,
                 json_t *transports)
{
    const Gpupool__Ctl__CtlError *error = reply->error;
    const Gpupool__Ctl__CtlGrant *grant = error ? NULL : reply->grant;
    Gpupool__Ctl__CtlReason **reasons = error ? error->reasons : grant->reasons;
    size_t n = error ? error->n_reasons : grant->n_reasons;
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s}", "server", reasons[i]->server, "card",
                            reasons[i]->card, "words", reasons[i]->words));
    return cli_output_print(output,
                            json_pack("{s:b, s:s, s:o, s:I, s:o}", "fits", (int)!error,
                                      "words", error ? error->words : grant->session,
                                      "cards", list, "cards_left_off",
                                      (json_int_t)(error ? error->reasons_left_off
                                                         : grant->reasons_left_off),
                                      "transports", transports));
}

/* Over @list, which is opened. */
static int
explain_ask(const struct cli_want *want, struct cli_list *list,
            Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlOpen open = want->open;
    int r = cli_list_open(list, want->where.scheduler, want->token, err);

    open.token = cli_ctl_shown(want->token);
    open.explain = true;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = &open;
    return r < 0 ? r : cli_ctl_call(&list->ctl, &req, CLI_DEADLINE_NS, ret_reply, err);
}

int
cli_explain_check(struct cli_want *want, const char *name)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    struct gp_err err = {0};
    int r = explain_ask(want, &list, &reply, &err);

    if (r >= 0 || (reply && reply->error &&
                   reply->error->code != GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST &&
                   reply->error->code != GPUPOOL__CTL__CTL_CODE__CTL_DENIED))
        return CLI_OK;
    return cli_fail(cli_ctl_exit(r, reply), "%s: %s", name, gp_err_msg(&err, r));
}

int
cli_explain_want(struct cli_want *want, const struct cli_output *output)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    json_t *transports = NULL;
    struct gp_err err = {0};
    int r = explain_ask(want, &list, &reply, &err);

    r = explain_answer(want, output, r, reply, &err);
    if (output->form >= CLI_FORM_JSON)
        transports = json_array();
    if (r == CLI_OK)
        explain_transports(&list, reply->grant, transports);
    if (transports && reply && (r == CLI_OK || reply->error) &&
        explain_document(output, reply, TAKE_PTR(transports)) < 0)
        r = cli_fail(CLI_FAILED, "explain: out of memory");
    json_decref(transports);
    return r;
}

int
cli_explain(int argc, char **argv)
{
    CLEANUP(cli_want_fini) struct cli_want want;
    struct cli_output output = {.form = CLI_FORM_TEXT};
    const struct gp_option_set_of sets[] = {cli_want_options(&want),
                                            cli_output_options(&output),
                                            cli_where_client(&want.where)};
    const struct gp_options options = {
        .program = "gpupool explain",
        .about = "Say where a session would be placed now, and why not elsewhere.  "
                 "Reserves nothing.",
        .after = "In a refusal of several cards, those of a server of which the same "
                 "is true are one\nline; --output wide, JSON and YAML have each.\nExit "
                 "status: 0 it fits, 2 bad usage, 3 it does not, 4 no scheduler.\n",
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
    return cli_explain_want(&want, &output);
}
