/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool drain, cordon, uncordon, forget, close: orders to the scheduler. */
#include "cli.h"
#include "cli_card.h"
#include "cli_ctl.h"
#include "cli_list.h"
#include "cli_options.h"
#include "cli_output.h"
#include "ctl_session_id.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ orders -- */

struct order {
    const char *program, *about; /* "gpupool drain" */
    const char *argument, *complete;
    struct cli_where where;
    const char *target;
    char *token;
    bool undo, wait;
    struct cli_output output;
    uint64_t wait_ms; /* 0: for as long as it takes */
};

/* The word after "gpupool ". */
static const char *
order_name(const struct order *order)
{
    return strchr(order->program, ' ') + 1;
}

/* -1: go on; else the exit status.  @own: options that other orders do not have. */
static int
order_parse(struct order *order, const struct gp_option *own, size_t n_own, int argc,
            char **argv)
{
    const struct gp_option_set_of sets[] = {{own, n_own, order},
                                            cli_output_options(&order->output),
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
order_connect(const struct order *order, struct cli_ctl *ctl, struct gp_err *err)
{
    char address[GP_NET_NAME_MAX];
    int r = cli_order_address(order->where.scheduler, address, err);

    if (!r)
        r = cli_ctl_open(ctl, address, err);
    if (!r)
        r = cli_ctl_prove(ctl, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_ADMIN, order->token,
                          err);
    return r;
}

/* The exit status; *ret_reply is set when there was an answer. */
static int
order_send(const struct order *order, struct cli_ctl *ctl,
           Gpupool__Ctl__CtlRequest *req, uint64_t timeout_ns,
           Gpupool__Ctl__CtlReply **ret_reply)
{
    struct gp_err err = {0};
    int r = order_connect(order, ctl, &err);

    if (!r)
        r = cli_ctl_call(ctl, req, timeout_ns, ret_reply, &err);
    return r < 0 ? cli_fail(cli_ctl_exit(r, *ret_reply), "%s: %s", order_name(order),
                            gp_err_msg(&err, r))
                 : CLI_OK;
}

/* What has become of what was named, for programs. */
static int
order_document(const struct order *order, const char *state, uint32_t sessions)
{
    json_t *root = json_pack("{s:s, s:s, s:I}", "name", order->target, "state", state,
                             "sessions", (json_int_t)sessions);

    return cli_output_print(&order->output, root) < 0
               ? cli_fail(CLI_FAILED, "%s: out of memory", order_name(order))
               : CLI_OK;
}

/* ------------------------------------------------------------------- drain -- */

/* The scheduler says at the latest after so long that nothing has changed. */
#define LOOK_MS 10000
/* Sessions that are named. */
#define NAMED_MAX 3

/* What is left on a server that drains. */
struct rest {
    unsigned sessions;
    uint32_t processes;
    char names[160]; /* "s4 of ann@a, s9 of bob@b and 12 more" */
};

static void
rest_add(struct rest *rest, const Gpupool__Ctl__CtlSessionStatus *session)
{
    size_t at = strlen(rest->names);
    char owner[32];

    gp_utf8_copy(owner, sizeof(owner), session->owner);
    rest->processes += session->attachments;
    if (rest->sessions++ < NAMED_MAX)
        snprintf(rest->names + at, sizeof(rest->names) - at, "%s%s of %s",
                 at ? ", " : "", session->session, owner);
}

static void
rest_end(struct rest *rest)
{
    size_t at = strlen(rest->names);

    if (rest->sessions > NAMED_MAX)
        snprintf(rest->names + at, sizeof(rest->names) - at, " and %u more",
                 rest->sessions - NAMED_MAX);
}

/* Over @ctl, which stays open. */
static int
look_at_rest(const struct order *order, struct cli_ctl *ctl, struct rest *ret,
             struct gp_err *err)
{
    const struct cli_filters filters = {.server = order->target};
    struct cli_list list = {.ctl = *ctl, .token = order->token};
    const Gpupool__Ctl__CtlListReply *page;
    int r;

    *ret = (struct rest){.sessions = 0};
    cli_list_begin(&list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS, &filters);
    while ((r = cli_list_next(&list, &page, err)) > 0)
        for (size_t i = 0; i < page->n_sessions; i++)
            rest_add(ret, page->sessions[i]);
    cli_reply_free(list.page);
    *ctl = list.ctl;
    rest_end(ret);
    return r;
}

/* A program goes on without its scheduler, so of a server that is not connected nobody
 * knows what still runs there.  True: it was said.  Who may drain but not read is told
 * nothing. */
static bool
warn_if_away(const struct order *order, struct cli_ctl *ctl)
{
    const struct cli_filters filters = {.server = order->target};
    struct cli_list list = {.ctl = *ctl, .token = order->token};
    const Gpupool__Ctl__CtlListReply *page;
    bool away = false;

    cli_list_begin(&list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, &filters);
    while (cli_list_next(&list, &page, NULL) > 0)
        for (size_t i = 0; i < page->n_servers; i++)
            away |= page->servers[i]->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD;
    cli_reply_free(list.page);
    *ctl = list.ctl;
    if (away)
        fprintf(stderr,
                "gpupool: drain: server %s is not connected: what was started there "
                "before may still run\n",
                order->target);
    return away;
}

/* Until the pool is another than it was at *seen, or for LOOK_MS. */
static int
await_change(struct cli_ctl *ctl, uint64_t *seen, uint64_t deadline, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlWatchPool body = GPUPOOL__CTL__CTL_WATCH_POOL__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    uint64_t now = gp_now_ns(), left = deadline - gp_min(deadline, now);
    int r;

    body.seen = *seen;
    body.timeout_ms = (uint32_t)gp_min(left / GP_NS_PER_MS + 1, (uint64_t)LOOK_MS);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_WATCH_POOL;
    req.watch_pool = &body;
    r = cli_ctl_call(ctl, &req, body.timeout_ms * GP_NS_PER_MS + CLI_DEADLINE_NS,
                     &reply, err);
    if (r < 0)
        return r;
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_POOL_CHANGE)
        return gp_err_set(err, -EPROTO, "the scheduler answered something else");
    *seen = reply->pool_change->now;
    return 0;
}

/* One line for each change; on a terminal it is always the same one. */
static void
show_rest(const struct order *order, const struct rest *rest, bool first)
{
    bool same_line = isatty(STDERR_FILENO);

    fprintf(stderr, "%sserver %s: draining, %u %s left with %u %s: %s%s",
            same_line && !first ? "\r\033[K" : "", order->target, rest->sessions,
            gp_plural(rest->sessions, "session", "sessions"), rest->processes,
            gp_plural(rest->processes, "process", "processes"), rest->names,
            same_line ? "" : "\n");
}

/* A scheduler that was started again, or another one, goes on answering. */
static int
look_again(const struct order *order, struct cli_ctl *ctl, struct rest *ret,
           uint64_t *seen, struct gp_err *err)
{
    int r = look_at_rest(order, ctl, ret, err);

    if (r >= 0 || r == -EREMOTE)
        return r;
    cli_ctl_close(ctl);
    *seen = 0;
    r = order_connect(order, ctl, err);
    return r < 0 ? r : look_at_rest(order, ctl, ret, err);
}

/* 0: nothing is left.  -ETIME: something is after the time that was given. */
static int
drain_wait(const struct order *order, struct cli_ctl *ctl, struct gp_err *err)
{
    uint64_t deadline =
        order->wait_ms ? gp_now_ns() + order->wait_ms * GP_NS_PER_MS : GP_FOREVER;
    struct rest rest, shown = {.sessions = 0};
    uint64_t seen = 0;
    bool first = true;
    int r;

    while ((r = look_again(order, ctl, &rest, &seen, err)) >= 0 && rest.sessions &&
           gp_now_ns() < deadline) {
        if (first || rest.sessions != shown.sessions ||
            rest.processes != shown.processes)
            show_rest(order, &rest, first);
        shown = rest;
        first = false;
        if (await_change(ctl, &seen, deadline, NULL) < 0) /* the next look says why */
            gp_sleep_ns(GP_NS_PER_S);
    }
    if (!first && isatty(STDERR_FILENO))
        fputc('\n', stderr);
    if (r < 0 || !rest.sessions)
        return r;
    return gp_err_set(err, -ETIME, "server %s is still draining, %u %s left there: %s",
                      order->target, rest.sessions,
                      gp_plural(rest.sessions, "session is", "sessions are"),
                      rest.names);
}

static int
drain_print(const struct order *order, uint32_t left)
{
    if (order->output.form >= CLI_FORM_JSON)
        return order_document(order,
                              order->undo ? "alive"
                              : left      ? "draining"
                                          : "drained",
                              left);
    if (order->undo || left)
        printf("server %s: %s, %u %s there\n", order->target,
               order->undo ? "accepts sessions again" : "draining, no new sessions",
               left, gp_plural(left, "session", "sessions"));
    else
        printf("server %s: drained, no sessions there and no new ones\n",
               order->target);
    return CLI_OK;
}

static int
drain_send(const struct order *order)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlDrain body = GPUPOOL__CTL__CTL_DRAIN__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.link.fd = -1};
    struct gp_err err = {0};
    uint32_t left;
    bool away;
    int status, r;

    body.server = (char *)order->target;
    body.token = cli_ctl_shown(order->token);
    body.undo = order->undo;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_DRAIN;
    req.drain = &body;
    status = order_send(order, &ctl, &req, CLI_DEADLINE_NS, &reply);
    if (status)
        return status;
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_DRAINED)
        return cli_fail(CLI_FAILED, "drain: the scheduler answered something else");
    left = reply->drained->sessions_left;
    away = !order->undo && warn_if_away(order, &ctl);
    if (order->wait && left) {
        r = drain_wait(order, &ctl, &err);
        if (r < 0)
            return cli_fail(r == -ETIME ? CLI_FAILED : cli_ctl_exit(r, NULL),
                            "drain: %s", gp_err_msg(&err, r));
        left = 0;
        if (!away)
            warn_if_away(order, &ctl);
    }
    return drain_print(order, left);
}

/* --wait without a time: no limit. */
static int
set_wait(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    static const struct gp_option bounds = {.min = 1, .max = UINT32_MAX};
    struct order *order = target;

    (void)option;
    order->wait = true;
    return *value && strcmp(value, "yes") != 0
               ? gp_option_time(&order->wait_ms, &bounds, value, err)
               : 0;
}

int
cli_drain(int argc, char **argv)
{
    static const struct gp_option own[] = {
        {.name = "undo",
         .help = "let it take sessions again",
         .set = gp_option_yes,
         .offset = offsetof(struct order, undo)},
        {.name = "wait",
         .value = "TIME",
         .optional = true,
         .help = "until nothing runs there any more (for 30s, 10m, 2h at most) and say "
                 "what is left",
         .set = set_wait},
    };
    struct order order = {
        .program = "gpupool drain",
        .argument = "SERVER",
        .complete = "servers",
        .about = "Place no more sessions on SERVER; those it has run on.",
    };
    int status = order_parse(&order, own, ARRAY_SIZE(own), argc, argv);

    if (status < 0 && order.undo && order.wait)
        status = cli_fail(CLI_USAGE, "drain: --undo leaves nothing to wait for");
    if (status < 0)
        status = drain_send(&order);
    free(order.token);
    return status;
}

/* ------------------------------------------------------------------ cordon -- */

static int
cordon_card_send(const struct order *order, const char *server, const char *card)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlCordon body = GPUPOOL__CTL__CTL_CORDON__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.link.fd = -1};
    int status;

    body.server = (char *)server;
    body.card = (char *)card;
    body.token = cli_ctl_shown(order->token);
    body.undo = order->undo;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CORDON;
    req.cordon = &body;
    status = order_send(order, &ctl, &req, CLI_DEADLINE_NS, &reply);
    if (status)
        return status;
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_DRAINED)
        return cli_fail(CLI_FAILED, "%s: the scheduler answered something else",
                        order_name(order));
    if (order->output.form >= CLI_FORM_JSON)
        return order_document(order, order->undo ? "alive" : "cordoned",
                              reply->drained->sessions_left);
    printf("card %s of server %s: %s, %u %s there\n", card, server,
           order->undo ? "accepts sessions again" : "cordoned, no new sessions",
           reply->drained->sessions_left,
           gp_plural(reply->drained->sessions_left, "session", "sessions"));
    return CLI_OK;
}

/* The card that has @name's uuid, or the only one whose uuid begins so. */
static int
cordon_uuid(const struct order *order, const struct cli_card_name *name)
{
    struct cli_list list = {.ctl.link.fd = -1, .token = order->token};
    char server[CTL_NAME_MAX], text[TICKET_UUID_TEXT];
    uint8_t uuid[TICKET_UUID_SIZE];
    struct gp_err err = {0};
    int r;

    if (*name->server && ticket_uuid_parse(name->uuid, uuid) == 0)
        return cordon_card_send(order, name->server, name->uuid);
    r = order_connect(order, &list.ctl, &err);
    if (!r)
        r = cli_card_find_over(&list, name, uuid, server, &err);
    cli_reply_free(list.page);
    cli_ctl_close(&list.ctl);
    if (r < 0)
        return cli_fail(r == -EINVAL ? CLI_REFUSED : cli_ctl_exit(r, NULL),
                        "%s: %s: %s", order_name(order), order->target,
                        gp_err_msg(&err, r));
    ticket_uuid_format(uuid, text);
    return cordon_card_send(order, server, text);
}

static int
cordon(struct order *order, int argc, char **argv)
{
    int status = order_parse(order, NULL, 0, argc, argv);
    struct cli_card_name card;
    char number[24];

    if (status < 0 && cli_card_parse(order->target, &card)) {
        snprintf(number, sizeof(number), "%" PRIu64, card.number);
        status = card.uuid ? cordon_uuid(order, &card)
                           : cordon_card_send(order, card.server, number);
    } else if (status < 0 && strpbrk(order->target, "/@")) {
        status = cli_fail(CLI_USAGE,
                          "%s: %s: a server, or a card, " CLI_CARD_FORMS ", is wanted",
                          order_name(order), order->target);
    } else if (status < 0) {
        status = drain_send(order);
    }
    free(order->token);
    return status;
}

int
cli_cordon(int argc, char **argv)
{
    struct order order = {
        .program = "gpupool cordon",
        .argument = "SERVER[/CARD]",
        .complete = "servers",
        .about =
            "Place no more sessions on SERVER, or on one CARD of it (its index there, "
            "its uuid or the\nbeginning of it; also NUMBER@SERVER, or the uuid alone); "
            "those it has run on.",
    };

    return cordon(&order, argc, argv);
}

int
cli_uncordon(int argc, char **argv)
{
    struct order order = {
        .program = "gpupool uncordon",
        .argument = "SERVER[/CARD]",
        .complete = "servers",
        .about = "Use SERVER, or one CARD of it, again.",
        .undo = true,
    };

    return cordon(&order, argc, argv);
}

/* ------------------------------------------------------------------ forget -- */

static int
forget_send(const struct order *order)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlForget body = GPUPOOL__CTL__CTL_FORGET__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.link.fd = -1};
    uint32_t ended;
    int status;

    body.server = (char *)order->target;
    body.token = cli_ctl_shown(order->token);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_FORGET;
    req.forget = &body;
    status = order_send(order, &ctl, &req, CLI_DEADLINE_NS, &reply);
    if (status)
        return status;
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_FORGOTTEN)
        return cli_fail(CLI_FAILED, "forget: the scheduler answered something else");
    ended = reply->forgotten->sessions_ended;
    if (order->output.form >= CLI_FORM_JSON)
        return order_document(order, "forgotten", ended);
    if (ended)
        printf("server %s: forgotten, %" PRIu32 " %s ended\n", order->target, ended,
               gp_plural(ended, "session", "sessions"));
    else
        printf("server %s: forgotten\n", order->target);
    return CLI_OK;
}

int
cli_forget(int argc, char **argv)
{
    struct order order = {
        .program = "gpupool forget",
        .argument = "SERVER",
        .complete = "servers",
        .about = "List SERVER, which is dead, no more; sessions there end.  One that "
                 "comes back is\na new server, neither drained nor cordoned.",
    };
    int status = order_parse(&order, NULL, 0, argc, argv);

    if (status < 0)
        status = forget_send(&order);
    free(order.token);
    return status;
}

/* ------------------------------------------------------------------- close -- */

/* The answer comes when the session's processes have ended; those of a server that says
 * nothing any more are given up when it counts as dead, after three heartbeats. */
#define CLOSE_NS (15 * GP_NS_PER_S)

/* Of the names s1, s2, ...  A session's id as a number is larger, and is not taken:
 * many programs read JSON's numbers as doubles, and what they make of an id may be that
 * of another session.  Its text is taken, whose digits are hexadecimal. */
#define NUMBER_MAX UINT32_MAX

static int
close_send(const struct order *order)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose body = GPUPOOL__CTL__CTL_CLOSE__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.link.fd = -1};
    const char *number = order->target + (order->target[0] == 's');
    int status;

    if (!ctl_session_id_parse(order->target, &body.session_id) &&
        gp_str_u64(number, 1, NUMBER_MAX, &body.session_id) < 0)
        return cli_fail(CLI_USAGE,
                        "close: %s is not a session name (s1, s2, ...), nor an id_hex",
                        order->target);
    body.token = cli_ctl_shown(order->token);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &body;
    status = order_send(order, &ctl, &req, CLOSE_NS, &reply);
    if (!status && order->output.form >= CLI_FORM_JSON)
        return order_document(order, "closed", 0);
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
    int status = order_parse(&order, NULL, 0, argc, argv);

    if (status < 0)
        status = close_send(&order);
    free(order.token);
    return status;
}
