/* SPDX-License-Identifier: Apache-2.0 */
/* Help and shell completion; see gp_option.h. */
#include "gp_option.h"

#include <errno.h>
#include <string.h>

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
put_option(FILE *out, const char *name, char letter, const char *value,
           const char *help)
{
    char flag[96];
    int n = snprintf(flag, sizeof(flag), "  %c%c%s--%s%s%s", letter ? '-' : ' ',
                     letter ? letter : ' ', letter ? ", " : "  ", name,
                     value ? " " : "", value ? value : "");

    fputs(flag, out);
    if (n + 2 > COLUMN)
        fprintf(out, "\n%*s", COLUMN, "");
    else
        fprintf(out, "%*s", COLUMN - n, "");
    put_words(out, help);
}

void
gp_options_help(const struct gp_options *options, FILE *out)
{
    fprintf(out, "Usage: %s [OPTION...]%s%s\n%s\n\n", options->program,
            options->arguments ? " " : "", options->arguments ? options->arguments : "",
            options->about);
    for (size_t s = 0; s < options->n_sets; s++)
        for (size_t i = 0; i < options->sets[s].n; i++) {
            const struct gp_option *o = &options->sets[s].options[i];

            put_option(out, o->name, o->letter, o->value, o->help);
        }
    if (options->config)
        put_option(out, "config", 0, "FILE",
                   "lines of `option = value`, # for comments");
    put_option(out, "help", 'h', NULL, "say this");
    if (options->env)
        fprintf(out,
                "\nEach option may come from the environment, as %sNAME with _ for -;\n"
                "flags decide over the environment, and that over the file.\n",
                options->env);
    if (options->after)
        fprintf(out, "\n%s", options->after);
}

/* -------------------------------------------------------------- completion -- */

/* Inside '...' of a shell: what would end the quotes is left out. */
static void
put_quoted(FILE *out, const char *text)
{
    for (; *text; text++)
        if (!strchr("'[]:", *text))
            fputc(*text, out);
}

/* Names without hyphens, for functions: gpupool_run. */
static void
put_function(FILE *out, const char *program)
{
    for (; *program; program++)
        fputc(*program == '-' || *program == ' ' ? '_' : *program, out);
}

static void
put_list(FILE *out, const char *const *words)
{
    for (; words && *words; words++)
        fprintf(out, "%s%s", *words, words[1] ? " " : "");
}

typedef void put_fn(FILE *out, const struct gp_options *options,
                    const struct gp_option *o);

static void
each(FILE *out, const struct gp_options *options, put_fn *put)
{
    static const struct gp_option help = {
        .name = "help", .letter = 'h', .help = "say this"};
    static const struct gp_option config = {
        .name = "config", .value = "FILE", .help = "lines of option = value"};

    for (size_t s = 0; s < options->n_sets; s++)
        for (size_t i = 0; i < options->sets[s].n; i++)
            put(out, options, &options->sets[s].options[i]);
    if (options->config)
        put(out, options, &config);
    put(out, options, &help);
}

static void
bash_flag(FILE *out, const struct gp_options *options, const struct gp_option *o)
{
    (void)options;
    fprintf(out, " --%s", o->name);
}

static void
bash_value(FILE *out, const struct gp_options *options, const struct gp_option *o)
{
    (void)options;
    if (!o->value)
        return;
    fprintf(out, "    --%s) ", o->name);
    if (o->words) {
        fputs("COMPREPLY=($(compgen -W '", out);
        put_list(out, o->words);
        fputs("' -- \"$cur\"));", out);
    } else if (strstr(o->value, "FILE") || strstr(o->value, "PATH")) {
        fputs("COMPREPLY=($(compgen -f -- \"$cur\"));", out);
    } else if (strstr(o->value, "DIR")) {
        fputs("COMPREPLY=($(compgen -d -- \"$cur\"));", out);
    }
    fputs(" return;;\n", out);
}

static void
complete_bash(FILE *out, const struct gp_options *options)
{
    fputc('_', out);
    put_function(out, options->program);
    fputs("() {\n    local cur=${COMP_WORDS[COMP_CWORD]} "
          "prev=${COMP_WORDS[COMP_CWORD-1]}\n    case $prev in\n",
          out);
    each(out, options, bash_value);
    fputs("    esac\n    COMPREPLY=($(compgen -W '", out);
    each(out, options, bash_flag);
    fputs("' -- \"$cur\"))\n}\n", out);
}

static void
zsh_flag(FILE *out, const struct gp_options *options, const struct gp_option *o)
{
    (void)options;
    fprintf(out, " \\\n        '--%s%s[", o->name, o->value ? "=" : "");
    put_quoted(out, o->help);
    fputc(']', out);
    if (o->value) {
        fputc(':', out);
        put_quoted(out, o->value);
        fputc(':', out);
        if (o->words) {
            fputc('(', out);
            put_list(out, o->words);
            fputc(')', out);
        } else if (strstr(o->value, "FILE") || strstr(o->value, "PATH") ||
                   strstr(o->value, "DIR")) {
            fputs("_files", out);
        }
    }
    fputc('\'', out);
}

static void
complete_zsh(FILE *out, const struct gp_options *options)
{
    fputc('_', out);
    put_function(out, options->program);
    fputs("() {\n    _arguments", out);
    each(out, options, zsh_flag);
    fputs("\n}\n", out);
}

/* `gpupool run`: the options are those of a subcommand. */
static void
fish_flag(FILE *out, const struct gp_options *options, const struct gp_option *o)
{
    const char *sub = strchr(options->program, ' ');

    fprintf(out, "complete -c %.*s", (int)strcspn(options->program, " "),
            options->program);
    if (sub)
        fprintf(out, " -n '__fish_seen_subcommand_from %s'", sub + 1);
    fprintf(out, " -l %s", o->name);
    if (o->letter)
        fprintf(out, " -s %c", o->letter);
    if (o->value && o->words) {
        fputs(" -x -a '", out);
        put_list(out, o->words);
        fputc('\'', out);
    } else if (o->value) {
        fputs(" -r", out);
    }
    fputs(" -d '", out);
    put_quoted(out, o->help);
    fputs("'\n", out);
}

int
gp_options_complete(const struct gp_options *options, const char *shell, FILE *out)
{
    if (strcmp(shell, "bash") == 0)
        complete_bash(out, options);
    else if (strcmp(shell, "zsh") == 0)
        complete_zsh(out, options);
    else if (strcmp(shell, "fish") == 0)
        each(out, options, fish_flag);
    else
        return -EINVAL;
    return 0;
}
