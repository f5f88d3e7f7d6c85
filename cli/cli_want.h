/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say what a session should be: shared by run and explain.
 *
 * A plain value around a CtlOpen message; strings belong to argv.
 */
#ifndef CLI_WANT_H
#define CLI_WANT_H

#include "cli_options.h"
#include "control.pb-c.h"
#include "gp_base.h"
#include "gp_file.h"

struct gp_err;

#define CLI_WANT_LABELS_MAX 16

struct cli_want {
    Gpupool__Ctl__CtlOpen open;
    struct cli_where where;
    char *token;
    const char *card;    /* as the user names it, or NULL */
    const char *decimal; /* --memory in a unit that elsewhere is decimal, or NULL */
    uint8_t uuid[16], host_id[GP_HOST_ID_SIZE];
    char node[64]; /* as CTL_NAME_MAX */
    char *labels[CLI_WANT_LABELS_MAX], *prefer[CLI_WANT_LABELS_MAX];
};

/* Variables that stand for options of a session: GPUPOOL_RUN_CORE is --core. */
#define CLI_WANT_ENV "GPUPOOL_RUN_"

void cli_want_init(struct cli_want *want);
void cli_want_fini(struct cli_want *want);
/* The options of a session; where the pool is comes from cli_where_client(). */
struct gp_option_set_of cli_want_options(struct cli_want *want);
/* After the last option: reads the token, and asks the pool which card is meant where
 * that is not said by its uuid. */
int cli_want_finish(struct cli_want *want, struct gp_err *err);
/* After a refusal for want of memory, as its @words say: the same number of bytes in
 * decimal units would have been less. */
void cli_want_say_decimal(const struct cli_want *want, const char *words, FILE *f);
/* The exit status when that fails with @r. */
int cli_want_exit(int r);

#endif
