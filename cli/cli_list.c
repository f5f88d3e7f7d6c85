/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_list.h"

#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int
cli_list_open(struct cli_list *list, const char *scheduler, const char *token,
              struct gp_err *err)
{
    int r;

    *list = (struct cli_list){.ctl = {.link.fd = -1}, .token = token};
    r = cli_ctl_open(&list->ctl, scheduler, err);
    return r < 0 ? r
                 : cli_ctl_prove(&list->ctl, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT,
                                 token, err);
}

void
cli_list_close(struct cli_list *list)
{
    cli_reply_free(list->page);
    cli_ctl_close(&list->ctl);
}

static char *
text(const char *filter)
{
    return filter ? (char *)filter : (char *)protobuf_c_empty_string;
}

void
cli_list_begin(struct cli_list *list, Gpupool__Ctl__CtlListKind kind,
               const struct cli_filters *filters)
{
    gpupool__ctl__ctl_list__init(&list->want);
    list->want.kind = kind;
    list->want.token = cli_ctl_shown(list->token);
    list->want.server = text(filters->server);
    list->want.owner = text(filters->owner);
    list->want.state = text(filters->state);
    list->want.card = text(filters->card);
    list->want.session = text(filters->session);
    list->want.with_sessions = filters->with_sessions;
    list->next[0] = '\0';
    list->begun = false;
    list->limit = filters->limit;
    list->got = list->total = 0;
}

/* --------------------------------------------------------------------- pages -- */

static int
ask_page(struct cli_list *list, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    list->want.next = list->next;
    list->want.most = CTL_LIST_MAX;
    if (list->limit)
        list->want.most =
            (uint32_t)gp_min(list->limit - list->got, (uint64_t)CTL_LIST_MAX);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_LIST;
    req.list = &list->want;
    cli_reply_free(TAKE_PTR(list->page));
    return cli_ctl_call(&list->ctl, &req, CLI_DEADLINE_NS, &list->page, err);
}

static int
by_name(const void *a, const void *b)
{
    const Gpupool__Ctl__CtlServerStatus *const *x = a, *const *y = b;

    return strverscmp((*x)->server, (*y)->server);
}

static size_t
rows_of(const struct cli_list *list, const Gpupool__Ctl__CtlListReply *page)
{
    size_t cards = 0;

    switch (list->want.kind) {
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS:
        return page->n_servers;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS:
        for (size_t i = 0; i < page->n_servers; i++)
            cards += page->servers[i]->n_cards;
        return cards;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS:
        return page->n_sessions;
    default:
        return page->n_events;
    }
}

/* A scheduler that follows says the truth late, or without what servers report. */
#define OLD_MS 15000

static void
say_whose(const struct cli_list *list)
{
    const Gpupool__Ctl__CtlReply *reply = list->page;
    static bool said; /* a view may have several lists, and look again and again */
    bool rows = list->want.kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS ||
                list->want.kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS ||
                list->want.kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS;

    if (said || reply->source != GPUPOOL__CTL__CTL_SOURCE__CTL_SOURCE_COPY ||
        (!rows && reply->age_ms < OLD_MS))
        return;
    said = true;
    if (rows)
        fprintf(stderr,
                "gpupool: the scheduler that leads does not answer; %s shows its copy, "
                "without what servers report\n",
                list->ctl.address);
    else
        fprintf(
            stderr,
            "gpupool: the scheduler that leads does not answer; %s shows what it was "
            "told %.0f s ago\n",
            list->ctl.address, (double)reply->age_ms / 1000);
}

int
cli_list_next(struct cli_list *list, const Gpupool__Ctl__CtlListReply **ret_page,
              struct gp_err *err)
{
    Gpupool__Ctl__CtlListReply *page;
    int r;

    if (list->begun && (!*list->next || (list->limit && list->got >= list->limit)))
        return 0;
    r = ask_page(list, err);
    if (r < 0)
        return r;
    if (list->page->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_LIST)
        return gp_err_set(err, -EPROTO, "the scheduler answered something else");
    page = list->page->list;
    if (!gp_str_copy(list->next, sizeof(list->next), page->next))
        return gp_err_set(err, -EPROTO, "the scheduler names no next page");
    if (!list->begun)
        say_whose(list);
    list->begun = true;
    list->got += rows_of(list, page);
    list->total = page->total;
    if (page->n_servers) /* they come as they happened to register */
        qsort(page->servers, page->n_servers, sizeof(page->servers[0]), by_name);
    *ret_page = page;
    return 1;
}

uint64_t
cli_list_left_off(const struct cli_list *list)
{
    if (!list->begun || !*list->next)
        return 0;
    return list->total > list->got ? list->total - list->got : CLI_LEFT_OFF_UNKNOWN;
}

int
cli_list_first(struct cli_list *list, const char *scheduler, const char *token,
               Gpupool__Ctl__CtlListKind kind, const struct cli_filters *filters,
               const Gpupool__Ctl__CtlListReply **ret_page, struct gp_err *err)
{
    int r = cli_list_open(list, scheduler, token, err);

    if (r < 0)
        return r;
    cli_list_begin(list, kind, filters);
    r = cli_list_next(list, ret_page, err);
    return r < 0 ? r : 0;
}
