/* SPDX-License-Identifier: Apache-2.0 */
/* Help; see gp_option.h. */
#include "gp_option.h"

#include <string.h>

/* What every program answers besides the options of its tables. */
static const struct gp_option BUILTIN[] = {
    {.name = "config",
     .value = "FILE",
     .help = "lines of `option = value`, # for comments"},
    {.name = "help", .letter = 'h', .help = "show this help"},
    {.name = "version", .help = "show the version"},
};

#define COLUMN 28 /* of the help's words */
#define WIDTH 88

/* @text from COLUMN on, broken between words. */
static void
put_words(FILE *out, const char *text)
{
    size_t at = COLUMN;

    while (*text) {
        size_t len = strcspn(text, " ");

        if (at > COLUMN && at + 1 + len > WIDTH) {
            fprintf(out, "\n%*s", COLUMN, "");
            at = COLUMN;
        } else if (at > COLUMN) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", (int)len, text);
        at += len;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void
put_option(const struct gp_options *options, const struct gp_option *o, FILE *out)
{
    char flag[96];
    int n = snprintf(flag, sizeof(flag), "  %c%c%s--%s%s%s%s", o->letter ? '-' : ' ',
                     o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                     !o->value     ? ""
                     : o->optional ? "[="
                                   : " ",
                     o->value ? o->value : "", o->optional ? "]" : "");

    (void)options;
    fputs(flag, out);
    if (n + 2 > COLUMN)
        fprintf(out, "\n%*s", COLUMN, "");
    else
        fprintf(out, "%*s", COLUMN - n, "");
    put_words(out, o->help);
}

static bool
has_option(const struct gp_options *options, const char *name)
{
    for (size_t s = 0; s < options->n_sets; s++)
        for (size_t i = 0; i < options->sets[s].n; i++)
            if (strcmp(options->sets[s].options[i].name, name) == 0)
                return true;
    return false;
}

void
gp_options_each(const struct gp_options *options, gp_option_visit *visit, FILE *out)
{
    for (size_t s = 0; s < options->n_sets; s++)
        for (size_t i = 0; i < options->sets[s].n; i++)
            visit(options, &options->sets[s].options[i], out);
    for (size_t i = options->config ? 0 : 1; i < ARRAY_SIZE(BUILTIN); i++)
        if (!has_option(options, BUILTIN[i].name)) /* unless the program has its own */
            visit(options, &BUILTIN[i], out);
}

void
gp_options_help(const struct gp_options *options, FILE *out)
{
    fprintf(out, "Usage: %s [OPTION...]%s%s\n%s\n\n", options->program,
            options->arguments ? " " : "", options->arguments ? options->arguments : "",
            options->about);
    gp_options_each(options, put_option, out);
    if (options->env)
        fprintf(out,
                "\nEach option may come from the environment: %sOPTION, in capitals "
                "and\n"
                "with _ for -, stands for --option; flags decide over the "
                "environment%s.\n",
                options->env, options->config ? ",\nand that over the file" : "");
    if (options->after)
        fprintf(out, "\n%s", options->after);
}
