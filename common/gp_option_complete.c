/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion for shells; see gp_option.h.
 *
 * A script holds nothing that a pool said: lists of servers and sessions are asked for
 * when a word is completed, and their lines are compared, never expanded.
 */
#include "gp_option.h"

#include "gp_command.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Inside '...' of a shell, and [...] of zsh: what would end them is left out. */
static void
put_quoted(FILE *out, const char *text)
{
    for (; *text; text++)
        if (!strchr("'[]:\\", *text))
            fputc(*text == '\n' ? ' ' : *text, out);
}

/* "gpupool run" is the function _gpupool_run. */
static void
put_function(FILE *out, const char *program)
{
    fputc('_', out);
    for (; *program; program++)
        fputc(isalnum((unsigned char)*program) ? *program : '_', out);
}

static int
first_word(const char *program)
{
    return (int)strcspn(program, " ");
}

/* 2 for "gpupool run". */
static unsigned
count_words(const char *program)
{
    unsigned n = 1;

    for (; *program; program++)
        n += *program == ' ';
    return n;
}

static void
put_verbs(const struct gp_options *options, const char *between, FILE *out)
{
    for (size_t i = 0; i < options->n_verbs; i++)
        fprintf(out, "%s%s", i ? between : "", options->verbs[i].name);
}

static void
put_list(FILE *out, const char *const *words)
{
    for (; words && *words; words++)
        fprintf(out, "%s%s", *words, words[1] ? " " : "");
}

/* What is offered for a value or an argument; NULL: nothing. */
static const char *
source_of(const struct gp_option *o)
{
    if (o->complete || !o->value)
        return o->complete;
    if (strstr(o->value, "DIR"))
        return GP_COMPLETE_FOLDER;
    return strstr(o->value, "FILE") || strstr(o->value, "PATH") ? GP_COMPLETE_FILE
                                                                : NULL;
}

/* -------------------------------------------------------------------- bash -- */

static void
bash_flag(const struct gp_options *options, const struct gp_option *o, FILE *out)
{
    (void)options;
    fprintf(out, " --%s", o->name);
}

/* Fills COMPREPLY and returns. */
static void
bash_offer(const struct gp_options *options, const char *source,
           const char *const *words, FILE *out)
{
    if (words) {
        fputs("mapfile -t COMPREPLY < <(compgen -W '", out);
        put_list(out, words);
        fputs("' -- \"$cur\"); ", out);
    } else if (source && strcmp(source, GP_COMPLETE_FILE) == 0) {
        fputs("compopt -o filenames 2>/dev/null; "
              "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); ",
              out);
    } else if (source && strcmp(source, GP_COMPLETE_FOLDER) == 0) {
        fputs("compopt -o filenames 2>/dev/null; "
              "mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); ",
              out);
    } else if (source && strcmp(source, GP_COMPLETE_PROGRAM) == 0) {
        fputs("mapfile -t COMPREPLY < <(compgen -c -- \"$cur\"); ", out);
    } else if (source) {
        fprintf(out,
                "while IFS= read -r word; do [[ $word == \"$cur\"* ]] && "
                "COMPREPLY+=(\"$word\"); done < <(%.*s complete %s 2>/dev/null); ",
                first_word(options->program), options->program, source);
    }
    fputs("return", out);
}

static void
bash_names(const struct gp_option *o, FILE *out)
{
    fprintf(out, "    --%s", o->name);
    if (o->letter)
        fprintf(out, "|-%c", o->letter);
    fputs(") ", out);
}

static void
bash_value(const struct gp_options *options, const struct gp_option *o, FILE *out)
{
    if (!o->value || o->optional)
        return;
    bash_names(o, out);
    bash_offer(options, source_of(o), o->words, out);
    fputs(";;\n", out);
}

/* Over an option and its value, which `=` may stand between as a word of its own. */
static void
bash_skip(const struct gp_options *options, const struct gp_option *o, FILE *out)
{
    (void)options;
    if (!o->value)
        return;
    fputs("    ", out);
    bash_names(o, out);
    fputs(o->optional ? "[[ ${COMP_WORDS[i+1]} == = ]] && i=$((i + 2));;\n"
                      : "[[ ${COMP_WORDS[i+1]} == = ]] && i=$((i + 1)); "
                        "i=$((i + 1));;\n",
          out);
}

/* Whether the program that the options end at has been named already: what follows is
 * its own. */
static void
bash_program(const struct gp_options *options, FILE *out)
{
    fprintf(out,
            "    for ((i = %u; i < COMP_CWORD; i++)); do\n"
            "        case ${COMP_WORDS[i]} in\n",
            count_words(options->program));
    gp_options_each(options, bash_skip, out);
    fputs("        -*) ;;\n        *) ", out);
    bash_offer(options, GP_COMPLETE_FILE, NULL, out);
    fputs(";;\n        esac\n    done\n", out);
}

/* Words behind a verb are completed as its own are. */
static void
bash_verbs(const struct gp_options *options, FILE *out)
{
    unsigned at = count_words(options->program);

    fprintf(out,
            "    if ((COMP_CWORD > %u)); then\n        case ${COMP_WORDS[%u]} in\n"
            "        ",
            at, at);
    put_verbs(options, "|", out);
    fputs(") ", out);
    put_function(out, options->program);
    fprintf(out, "_${COMP_WORDS[%u]}; return;;\n        esac\n    fi\n", at);
}

static void
complete_bash(const struct gp_options *options, FILE *out)
{
    put_function(out, options->program);
    fputs("() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local word i equals=\n"
          "    COMPREPLY=()\n",
          out);
    if (options->n_verbs)
        bash_verbs(options, out);
    if (options->first_ends)
        bash_program(options, out);
    fputs("    if [[ $cur == = ]]; then cur= equals=yes; fi\n"
          "    if [[ $prev == = ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-2]} equals=yes\n"
          "    fi\n"
          "    case $prev in\n",
          out);
    gp_options_each(options, bash_value, out);
    fputs("    esac\n    [[ $equals ]] && return\n    if [[ $cur == -* ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W '",
          out);
    gp_options_each(options, bash_flag, out);
    fputs("' -- \"$cur\")\n        return\n    fi\n    ", out);
    bash_offer(options, options->arguments_complete, options->arguments_words, out);
    fputs("\n}\n", out);
    if (!strchr(options->program, ' ')) {
        fputs("complete -F ", out);
        put_function(out, options->program);
        fprintf(out, " %s\n", options->program);
    }
}

/* --------------------------------------------------------------------- zsh -- */

static void
zsh_offer(const struct gp_options *options, const char *source,
          const char *const *words, FILE *out)
{
    if (words) {
        fputc('(', out);
        put_list(out, words);
        fputc(')', out);
    } else if (!source) {
        fputc(' ', out);
    } else if (strcmp(source, GP_COMPLETE_FILE) == 0) {
        fputs("_files", out);
    } else if (strcmp(source, GP_COMPLETE_FOLDER) == 0) {
        fputs("_files -/", out);
    } else if (strcmp(source, GP_COMPLETE_PROGRAM) == 0) {
        fputs("_command_names -e", out);
    } else {
        fprintf(out, "{compadd -- ${(f)\"$(%.*s complete %s 2>/dev/null)\"}}",
                first_word(options->program), options->program, source);
    }
}

static void
zsh_form(const struct gp_options *options, const struct gp_option *o, bool letter,
         FILE *out)
{
    fputs(" \\\n        '", out);
    if (letter)
        fprintf(out, "-%c%s[", o->letter, o->value ? "+" : "");
    else
        fprintf(out, "--%s%s[", o->name, !o->value ? "" : o->optional ? "=-" : "=");
    put_quoted(out, o->help);
    fputc(']', out);
    if (o->value) {
        fputs(o->optional ? "::" : ":", out);
        put_quoted(out, o->value);
        fputc(':', out);
        zsh_offer(options, source_of(o), o->words, out);
    }
    fputc('\'', out);
}

static void
zsh_flag(const struct gp_options *options, const struct gp_option *o, FILE *out)
{
    zsh_form(options, o, false, out);
    if (o->letter)
        zsh_form(options, o, true, out);
}

/* The words begin with this program's last one. */
static void
zsh_verbs(const struct gp_options *options, FILE *out)
{
    fputs("    if ((CURRENT > 2)) && (($+functions[", out);
    put_function(out, options->program);
    fputs("_${words[2]}])); then\n        shift words\n        ((CURRENT--))\n        ",
          out);
    put_function(out, options->program);
    fputs("_${words[1]}\n        return\n    fi\n", out);
}

static void
complete_zsh(const struct gp_options *options, FILE *out)
{
    bool alone = !strchr(options->program, ' ');

    if (alone)
        fprintf(out, "#compdef %s\n", options->program);
    put_function(out, options->program);
    fputs("() {\n", out);
    if (options->n_verbs)
        zsh_verbs(options, out);
    fputs("    _arguments", out);
    gp_options_each(options, zsh_flag, out);
    if (options->arguments_words || options->arguments_complete) {
        fputs(options->first_ends ? " \\\n        '(-)1:argument:"
                                  : " \\\n        '*:argument:",
              out);
        zsh_offer(options, options->arguments_complete, options->arguments_words, out);
        fputc('\'', out);
        if (options->first_ends)
            fputs(" \\\n        '*::argument: _normal'", out);
    }
    fputs("\n}\n", out);
    if (alone) {
        put_function(out, options->program);
        fputs(" \"$@\"\n", out);
    }
}

/* -------------------------------------------------------------------- fish -- */

/* `gpupool job submit`: the options are those of that subcommand, and not of the one
 * before it. */
static void
fish_begin(const struct gp_options *options, FILE *out)
{
    const char *word = strchr(options->program, ' ');
    const char *before = " -n '";

    fprintf(out, "complete -c %.*s", first_word(options->program), options->program);
    for (; word; word = strchr(word + 1, ' ')) {
        fprintf(out, "%s__fish_seen_subcommand_from %.*s", before,
                (int)strcspn(word + 1, " "), word + 1);
        before = "; and ";
    }
    if (options->n_verbs) {
        fprintf(out, "%snot __fish_seen_subcommand_from ", before);
        put_verbs(options, " ", out);
    }
    if (strchr(options->program, ' '))
        fputc('\'', out);
}

static void
fish_offer(const struct gp_options *options, const char *source,
           const char *const *words, FILE *out)
{
    if (words) {
        fputs(" -x -a '", out);
        put_list(out, words);
        fputc('\'', out);
    } else if (!source) {
        fputs(" -x", out);
    } else if (strcmp(source, GP_COMPLETE_FILE) == 0) {
        fputs(" -r -F", out);
    } else if (strcmp(source, GP_COMPLETE_FOLDER) == 0) {
        fputs(" -x -a '(__fish_complete_directories)'", out);
    } else if (strcmp(source, GP_COMPLETE_PROGRAM) == 0) {
        fputs(" -x -a '(__fish_complete_subcommand)'", out);
    } else {
        fprintf(out, " -x -a '(%.*s complete %s 2>/dev/null)'",
                first_word(options->program), options->program, source);
    }
}

static void
fish_flag(const struct gp_options *options, const struct gp_option *o, FILE *out)
{
    fish_begin(options, out);
    fprintf(out, " -l %s", o->name);
    if (o->letter)
        fprintf(out, " -s %c", o->letter);
    if (o->value && !o->optional)
        fish_offer(options, source_of(o), o->words, out);
    fputs(" -d '", out);
    put_quoted(out, o->help);
    fputs("'\n", out);
}

static void
complete_fish(const struct gp_options *options, FILE *out)
{
    gp_options_each(options, fish_flag, out);
    fish_begin(options, out);
    if (options->arguments_words || options->arguments_complete)
        fish_offer(options, options->arguments_complete, options->arguments_words, out);
    else
        fputs(" -f", out);
    fputc('\n', out);
}

int
gp_options_complete(const struct gp_options *options, const char *shell, FILE *out)
{
    const char *argv[] = {NULL, "--completion", shell, NULL};

    /* Each verb gives its own part, on stdout as this one is. */
    fflush(out);
    for (size_t i = 0; i < options->n_verbs; i++) {
        argv[0] = options->verbs[i].name;
        if (options->verbs[i].run(3, (char **)(uintptr_t)argv) != 0)
            return -EINVAL;
    }
    if (strcmp(shell, "bash") == 0)
        complete_bash(options, out);
    else if (strcmp(shell, "zsh") == 0)
        complete_zsh(options, out);
    else if (strcmp(shell, "fish") == 0)
        complete_fish(options, out);
    else
        return -EINVAL;
    return 0;
}
