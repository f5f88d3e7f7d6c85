/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool pools: the other pools that requests are handed to. */
#include "cli.h"
#include "cli_list.h"
#include "cli_query.h"
#include "cli_table.h"
#include "ctl_json.h"
#include "gp_err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static void
add_row(struct cli_table *table, const Gpupool__Ctl__CtlOtherPool *pool)
{
    cli_table_add(table, "%s", pool->pool);
    cli_table_add(table, "%s",
                  !pool->tried    ? "not-asked"
                  : pool->answers ? "answers"
                                  : "away");
    cli_table_add(table, "%" PRIu64, pool->asked);
    cli_table_add(table, "%" PRIu64, pool->granted);
    cli_table_add(table, "%" PRIu64, pool->refused);
    cli_table_add(table, "%" PRIu64, pool->failed);
    if (pool->tried)
        cli_table_add(table, "%" PRIu64 "s", pool->last_ms / 1000);
    else
        cli_table_add(table, "%s", "");
    cli_table_add(table, "%s", pool->scheduler);
    cli_table_add(table, "%s", pool->words);
}

static int
print_table(const struct cli_output *output, const Gpupool__Ctl__CtlListReply *page)
{
    static const char *const heads[] = {"POOL",     "STATE",     ">ASKED",
                                        ">GRANTED", ">REFUSED",  ">FAILED",
                                        ">LAST",    "SCHEDULER", "+DETAIL"};
    CLEANUP(cli_table_fini) struct cli_table table;

    cli_table_init(&table, heads, ARRAY_SIZE(heads));
    table.wide = output->form == CLI_FORM_WIDE;
    table.headless = output->headless;
    for (size_t i = 0; i < page->n_pools; i++)
        add_row(&table, page->pools[i]);
    if (!page->n_pools)
        printf("this pool hands requests to no other one; see gpupool-scheduler(8)\n");
    return page->n_pools ? cli_table_print(&table, stdout) : 0;
}

static int
print_json(const struct cli_output *output, const Gpupool__Ctl__CtlListReply *page)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < page->n_pools; i++)
        json_array_append_new(rows, ctl_json_other_pool(page->pools[i]));
    return cli_output_print(output, json_pack("{s:o}", "pools", rows));
}

static int
show(struct cli_query *q, char **args, int n, struct gp_err *err)
{
    static const struct cli_filters all = {0};
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    const Gpupool__Ctl__CtlListReply *page = NULL;
    int r =
        cli_list_first(&list, q->where.scheduler, q->token,
                       GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOLS, &all, &page, err);

    (void)args;
    (void)n; /* none are taken */
    if (r < 0)
        return r;
    return q->output.form >= CLI_FORM_JSON ? print_json(&q->output, page)
                                           : print_table(&q->output, page);
}

int
cli_pools(int argc, char **argv)
{
    struct cli_query q = {.token = NULL};
    const struct gp_option_set_of sets[] = {cli_output_options(&q.output),
                                            cli_where_client(&q.where)};
    const struct gp_options options = {
        .program = "gpupool pools",
        .about =
            "The other pools that requests are handed to which do not fit here, and "
            "what\nthey answered.",
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };

    return cli_query_run(&q, &options, argc, argv, show);
}
