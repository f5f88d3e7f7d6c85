/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_output.h"

#include "cli_yaml.h"
#include "gp_err.h"

#include <errno.h>
#include <stdio.h>

static const char *const FORMS[] = {"table", "wide", "json", "yaml", NULL};

static int
set_json(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    bool yes = false;
    struct gp_option check = *option;
    int r;

    check.offset = 0;
    r = gp_option_yes(&yes, &check, value, err);
    if (!r && yes)
        ((struct cli_output *)target)->form = CLI_FORM_JSON;
    return r;
}

static const struct gp_option OPTIONS[] = {
    {.name = "output",
     .letter = 'o',
     .value = "table|wide|json|yaml",
     .help = "the form of the answer; wide: a table with everything (table)",
     .set = gp_option_choice,
     .words = FORMS,
     .min = CLI_FORM_TEXT,
     .offset = offsetof(struct cli_output, form)},
    {.name = "json", .help = "the same as --output json", .set = set_json},
    {.name = "no-headers",
     .help = "a table without its first line",
     .set = gp_option_yes,
     .offset = offsetof(struct cli_output, headless)},
};

struct gp_option_set_of
cli_output_options(struct cli_output *output)
{
    return (struct gp_option_set_of){OPTIONS, ARRAY_SIZE(OPTIONS), output};
}

int
cli_output_flush(void)
{
    static int failed; /* the first one's: later flushes may find nothing to write */
    bool lost = ferror(stdout);

    if (fflush(stdout) != 0 && !failed)
        failed = errno;
    if (lost && !failed)
        failed = EIO;
    return -failed;
}

int
cli_output_print(const struct cli_output *output, json_t *root)
{
    int r = 0;

    if (!root)
        return -ENOMEM;
    if (output->form == CLI_FORM_YAML) {
        cli_yaml_print(stdout, root);
    } else {
        r = json_dumpf(root, stdout, CLI_JSON_FLAGS);
        if (r < 0) /* what cannot be written is main()'s to say */
            r = ferror(stdout) ? 0 : -ENOMEM;
        putchar('\n');
    }
    json_decref(root);
    return r;
}
