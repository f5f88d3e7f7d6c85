/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say what a session should be: shared by run and explain.
 *
 * A plain value around a CtlOpen message; strings belong to argv.
 */
#ifndef CLI_WANT_H
#define CLI_WANT_H

#include "control.pb-c.h"
#include "gp_base.h"

#include <getopt.h>

struct gp_err;

#define CLI_WANT_LABELS_MAX 16

struct cli_want {
    Gpupool__Ctl__CtlOpen open;
    const char *scheduler, *token_file;
    char *token;
    uint8_t uuid[16];
    char *labels[CLI_WANT_LABELS_MAX];
};

#define CLI_WANT_HELP                                                                  \
    "  --core N            percent of a card, 1..100; or N*100 for N whole cards "     \
    "(100)\n"                                                                          \
    "  --memory SIZE       of each card, like 512MiB or 4G; needed below 100 %\n"      \
    "  --cards N           so many slices on as many cards of one server (1)\n"        \
    "  --span              of several servers, when no single one has them all\n"      \
    "  --core-limit N      may use up to N % while the card is idle\n"                 \
    "  --policy P          fixed-share (fs), burst-share (bs) or best-effort (be)\n"   \
    "  --class C           online, or offline: only while no online one wants the "    \
    "card\n"                                                                           \
    "  --spatial S         off, sm: on multiprocessors of its own, or mps (off)\n"     \
    "  --placement P       binpack or spread, instead of the scheduler's own\n"        \
    "  --server NAME       only on this server\n"                                      \
    "  --label NAME=VALUE  only on servers with this label; NAME!=VALUE: without\n"    \
    "  --model PATTERN     only on cards of such a name, like '*H100*'\n"              \
    "  --cc N.N            only on cards of this compute capability or higher\n"       \
    "  --tflops N          so much of a card as does N TFLOPS, instead of --core\n"    \
    "  --apart WHAT        not on a card, or not on a server, that the owner uses\n"   \
    "  --priority CLASS    a priority class of the pool (normal)\n"                    \
    "  --card GPU-UUID     only on this card\n"                                        \
    "  --owner NAME        who answers for it (user@host)\n"                           \
    "  --processes N       most processes that may use it at a time\n"                 \
    "  --scheduler H:P     else GPUPOOL_SCHEDULER, else the pool of `gpupool up`\n"    \
    "  --token-file FILE   else GPUPOOL_TOKEN_FILE: the pool's client token\n"

/* Values for getopt_long; everything else is the command's own. */
enum {
    CLI_WANT_FIRST = 512,
    CLI_WANT_CORE = CLI_WANT_FIRST,
    CLI_WANT_MEMORY,
    CLI_WANT_CARDS,
    CLI_WANT_SPAN,
    CLI_WANT_CORE_LIMIT,
    CLI_WANT_POLICY,
    CLI_WANT_CLASS,
    CLI_WANT_SPATIAL,
    CLI_WANT_PLACEMENT,
    CLI_WANT_SERVER,
    CLI_WANT_CARD,
    CLI_WANT_OWNER,
    CLI_WANT_PROCESSES,
    CLI_WANT_SCHEDULER,
    CLI_WANT_TOKEN,
    CLI_WANT_LABEL,
    CLI_WANT_MODEL,
    CLI_WANT_CC,
    CLI_WANT_TFLOPS,
    CLI_WANT_APART,
    CLI_WANT_PRIORITY,
};

#define CLI_WANT_OPTIONS                                                               \
    {"core", required_argument, NULL, CLI_WANT_CORE},                                  \
        {"memory", required_argument, NULL, CLI_WANT_MEMORY},                          \
        {"cards", required_argument, NULL, CLI_WANT_CARDS},                            \
        {"span", no_argument, NULL, CLI_WANT_SPAN},                                    \
        {"core-limit", required_argument, NULL, CLI_WANT_CORE_LIMIT},                  \
        {"policy", required_argument, NULL, CLI_WANT_POLICY},                          \
        {"class", required_argument, NULL, CLI_WANT_CLASS},                            \
        {"spatial", required_argument, NULL, CLI_WANT_SPATIAL},                        \
        {"placement", required_argument, NULL, CLI_WANT_PLACEMENT},                    \
        {"server", required_argument, NULL, CLI_WANT_SERVER},                          \
        {"card", required_argument, NULL, CLI_WANT_CARD},                              \
        {"owner", required_argument, NULL, CLI_WANT_OWNER},                            \
        {"label", required_argument, NULL, CLI_WANT_LABEL},                            \
        {"model", required_argument, NULL, CLI_WANT_MODEL},                            \
        {"cc", required_argument, NULL, CLI_WANT_CC},                                  \
        {"tflops", required_argument, NULL, CLI_WANT_TFLOPS},                          \
        {"apart", required_argument, NULL, CLI_WANT_APART},                            \
        {"priority", required_argument, NULL, CLI_WANT_PRIORITY},                      \
        {"processes", required_argument, NULL, CLI_WANT_PROCESSES},                    \
        {"scheduler", required_argument, NULL, CLI_WANT_SCHEDULER},                    \
    {                                                                                  \
        "token-file", required_argument, NULL, CLI_WANT_TOKEN                          \
    }

void cli_want_init(struct cli_want *want);
void cli_want_fini(struct cli_want *want);
/* One option with its argument.  -EINVAL with words. */
int cli_want_option(struct cli_want *want, int opt, const char *arg,
                    struct gp_err *err);
/* "30s", "10m", "2h", or seconds. */
int cli_want_time(const char *text, uint64_t *ret_ms);
/* After the last option: reads the token. */
int cli_want_finish(struct cli_want *want, struct gp_err *err);

#endif
