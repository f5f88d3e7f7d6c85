/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view of the pool: the options that all of them have (form, filters, order, limit,
 * repetition), and what is done with them.
 *
 * A view is a constant: the tables that it has, and which rows of the pool's lists they
 * show.  One that shows something else has a look of its own.  One thread.
 */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "cli_list.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_table.h"

struct gp_err;
struct cli_view;

/* Filters that a view takes. */
#define CLI_VIEW_SERVER (1u << 0)
#define CLI_VIEW_STATE (1u << 1)
#define CLI_VIEW_OWNER (1u << 2)
#define CLI_VIEW_TENANT (1u << 3)

struct cli_view_query {
    struct cli_where where;
    char *token;
    bool watch;
    bool torn; /* a document on stdout has been begun and not ended */
    uint64_t interval_ms, count;
    const char *sort; /* head of a column, after '-' for the largest first; or NULL */
    struct cli_output output;
    struct cli_filters filters;
};

/* States that --state takes, NULL at the end, and its line in --help, which names them.
 */
struct cli_states {
    const char *words[6];
    const char *help;
};

struct cli_view {
    const char *program, *about, *after;
    const char *none, *none_such; /* instead of a table without rows; with filters */
    const char *things;           /* "sessions": what the rows are */
    Gpupool__Ctl__CtlListKind kind;
    unsigned takes;
    const struct cli_states *states; /* with CLI_VIEW_STATE */
    bool again;                      /* it repeats itself without --watch */
    bool sessions_only;              /* as JSON: no servers */
    /* Its old names of options, as gp_options has them. */
    const char *(*alias)(const char *name, const char *value);
    const struct cli_view *then; /* another table, where it has rows; NULL: none */
    const char *const *heads;
    unsigned n_heads;
    void (*rows)(struct cli_table *t, const Gpupool__Ctl__CtlListReply *page);
    /* Look at the pool and print all of it; NULL: the list of @kind is printed. */
    int (*look)(struct cli_view_query *q, const struct cli_view *view,
                struct gp_err *err);
};

/* The whole command; returns its exit status. */
int cli_view_run(const struct cli_view *view, int argc, char **argv);

/* For a look of a view's own.  The screen is cleared where one look follows another;
 * due before the first line. */
void cli_view_begin_tables(const struct cli_view_query *q);
/* Whether tables are wanted, not documents. */
bool cli_view_has_tables(const struct cli_view_query *q);
void cli_view_table_init(struct cli_table *t, const struct cli_view *view,
                         const struct cli_view_query *q);
/* Print @t in the order that is asked for, and how many rows more there are than the
 * limit lets through: of the table, and @left_off besides. */
int cli_view_table_end(struct cli_table *t, const struct cli_view *view,
                       const struct cli_view_query *q, uint64_t left_off);

#endif
