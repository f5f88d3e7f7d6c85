/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool get: the lists and descriptions under the one name that kubectl has for them.
 */
#include "cli.h"
#include "cli_options.h"

#include <string.h>

static const struct {
    const char *kind;
    int (*list)(int argc, char **argv);
} KINDS[] = {
    {"cards", cli_status},     {"servers", cli_servers}, {"sessions", cli_sessions},
    {"events", cli_events},    {"queue", cli_queue},     {"usage", cli_usage},
    {"pools", cli_pools},      {"card", cli_describe},   {"server", cli_describe},
    {"session", cli_describe},
};

int
cli_get(int argc, char **argv)
{
    static const char *const words[] = {"cards",  "servers", "sessions", "events",
                                        "queue",  "usage",   "pools",    "card",
                                        "server", "session", NULL};
    const struct gp_options options = {
        .program = "gpupool get",
        .arguments = "KIND [NAME] [OPTION...]",
        .arguments_words = words,
        .about =
            "What the pool has, of a kind: cards, servers, sessions, events, queue, "
            "usage, pools;\nor one card, server or session by its name.",
        .after =
            "The options are those of the command that shows it: `gpupool get "
            "sessions` is\n`gpupool sessions`, `gpupool get session s7` is `gpupool "
            "describe session s7`,\n`gpupool get cards` is `gpupool status`.\n",
        .first_ends = true,
    };
    int first, status;

    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(KINDS); i++)
        if (!strcmp(argv[1], KINDS[i].kind))
            return KINDS[i].list == cli_describe ? cli_describe(argc, argv)
                                                 : KINDS[i].list(argc - 1, argv + 1);
    status = cli_options(&options, argc, argv, &first);
    if (status >= 0)
        return status;
    return cli_fail(CLI_USAGE,
                    "get: %s%scards, servers, sessions, events, queue, usage "
                    "or pools is wanted, or card, server or session and a "
                    "name",
                    first < argc ? argv[first] : "", first < argc ? ": " : "");
}
