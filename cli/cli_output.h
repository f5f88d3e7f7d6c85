/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an answer is printed: as a table or text, with everything that does not fit, as
 * JSON or as YAML.  Plain values; one thread.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli_options.h"

#include <jansson.h>

/* Numbers as they were meant: 0.1, not the 17 digits of the nearest double. */
#define CLI_JSON_FLAGS (JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(15))

enum cli_form {
    CLI_FORM_TEXT,
    CLI_FORM_WIDE,
    CLI_FORM_JSON,
    CLI_FORM_YAML,
};

struct cli_output {
    enum cli_form form;
    bool headless;
};

/* --output, and --json for it. */
struct gp_option_set_of cli_output_options(struct cli_output *output);

/* @root, which is taken, as JSON or YAML on stdout.  -ENOMEM when it is NULL. */
int cli_output_print(const struct cli_output *output, json_t *root);
/* Flush stdout.  -errno: something of what was printed since the start is lost, which
 * main() says when the command ends. */
int cli_output_flush(void);

#endif
