/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool top: what the sessions really use, live. */
#include "cli.h"
#include "cli_view.h"
#include "ctl_json.h"
#include "gp_size.h"

#include <inttypes.h>

#define USE_CELLS 7

/* NULL: whoever answers has had no report of it. */
static void
add_use(struct cli_table *t, const Gpupool__Ctl__CtlSliceUse *use)
{
    char buf[GP_SIZE_TEXT];

    for (int i = 0; !use && i < USE_CELLS; i++)
        cli_table_add(t, "%s", "");
    if (!use)
        return;
    cli_table_add(t, "%.1f %%", use->share_permille / 10.0);
    cli_table_add(t, "%.1f ms", (double)use->gpu_ns / 1e6);
    cli_table_add(t, "%.1f ms", (double)use->wait_ns / 1e6);
    cli_table_add(t, "%" PRIu64, use->launches);
    cli_table_add(t, "%s", gp_size_format(use->moved_bytes, buf));
    cli_table_add(t, "%s", gp_size_format(use->used_bytes, buf));
    cli_table_add(t, "%s", gp_size_format(use->high_bytes, buf));
}

static void
add_slices(struct cli_table *t, const Gpupool__Ctl__CtlSessionStatus *s)
{
    char buf[GP_SIZE_TEXT];

    for (size_t k = 0; k < s->n_slices && k < s->n_use; k++) {
        const Gpupool__Ctl__CtlSliceUse *use = s->use[k];

        cli_table_add(t, "%s", s->session);
        cli_table_add(t, "%s", s->slices[k]->server);
        cli_table_add(t, "%u %%", s->slices[k]->core);
        add_use(t, s->unseen ? NULL : use);
        cli_table_add(t, "%s", gp_size_format(s->slices[k]->memory_bytes, buf));
        cli_table_add(t, "%s", ctl_session_state(s));
        if (s->unseen)
            cli_table_add(t, "%s", "");
        else
            cli_table_add(t, "%u", s->attachments);
        cli_table_add(t, "%s", s->owner);
        cli_table_add(t, "%s", s->program);
    }
}

static void
use_rows(struct cli_table *t, const Gpupool__Ctl__CtlListReply *page)
{
    for (size_t i = 0; i < page->n_sessions; i++)
        add_slices(t, page->sessions[i]);
}

int
cli_top(int argc, char **argv)
{
    static const char *const heads[] = {">SESSION",  "SERVER",  ">CORE",     ">SHARE",
                                        ">GPU TIME", ">WAITED", ">LAUNCHES", ">MOVED",
                                        ">USED",     ">HIGH",   ">MEMORY",   "STATE",
                                        ">PROCS",    "OWNER",   "PROGRAM"};
    static const struct cli_view view = {
        .program = "gpupool top",
        .about = "What each slice was given and what it uses, again and again.",
        .after =
            "SHARE is the part of the card's time that the slice used lately (between "
            "the last two\nreports of its server), WAITED the time that ready work was "
            "held back to keep shares,\nHIGH the most memory it ever used at a time.  "
            "A look that fails does not end it.\n",
        .none = "no sessions",
        .none_such = "no sessions",
        .things = "sessions",
        .kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS,
        .takes = CLI_VIEW_SERVER | CLI_VIEW_OWNER,
        .again = true,
        .sessions_only = true,
        .heads = heads,
        .n_heads = ARRAY_SIZE(heads),
        .rows = use_rows};

    return cli_view_run(&view, argc, argv);
}
