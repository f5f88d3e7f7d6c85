/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool page by page (CtlList), so that a pool of any size is shown without holding
 * all of it.
 *
 * Blocking; the caller owns the object.
 */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "cli_ctl.h"
#include "control.pb-c.h"
#include "ctl_limits.h"

struct gp_err;

struct cli_list {
    struct cli_ctl ctl;
    const char *token;          /* the caller's */
    Gpupool__Ctl__CtlList want; /* strings are the caller's */
    char next[CTL_LIST_NEXT_MAX];
    bool begun;
    uint64_t limit, got; /* rows; @limit 0: all */
    uint64_t total;      /* of all pages, where the scheduler said so; else 0 */
    Gpupool__Ctl__CtlReply *page;
};

/* Connect.  On failure cli_list_close() is due as well. */
int cli_list_open(struct cli_list *list, const char *scheduler, const char *token,
                  struct gp_err *err);
void cli_list_close(struct cli_list *list); /* zeroed: set ctl.link.fd to -1 */

/* From now on pages of @kind with these filters; NULL: any.  After @limit rows (0: all)
 * no more pages come. */
struct cli_filters {
    const char *server, *owner, *state, *card, *session;
    const char *tenant; /* of the queue */
    bool with_sessions;
    uint32_t limit;
};
void cli_list_begin(struct cli_list *list, Gpupool__Ctl__CtlListKind kind,
                    const struct cli_filters *filters);
/* 1: *ret_page is the next one, until the next call.  0: there is none.  Servers of a
 * page are in the order of their names. */
int cli_list_next(struct cli_list *list, const Gpupool__Ctl__CtlListReply **ret_page,
                  struct gp_err *err);

/* How many rows the limit left off. */
#define CLI_LEFT_OFF_UNKNOWN UINT64_MAX /* some */
uint64_t cli_list_left_off(const struct cli_list *list);

/* What only the first page of @kind is wanted of: with @filters, on a connection of its
 * own.  *ret_list is the caller's on success too (cli_list_close()), and its page with
 * it. */
int cli_list_first(struct cli_list *list, const char *scheduler, const char *token,
                   Gpupool__Ctl__CtlListKind kind, const struct cli_filters *filters,
                   const Gpupool__Ctl__CtlListReply **ret_page, struct gp_err *err);

#endif
