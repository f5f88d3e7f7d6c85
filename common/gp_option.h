/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a program, in one table: from it come parsing of the command line, of
 * the environment and of a configuration file, --help, manual pages, and shell
 * completion.
 *
 * Tables are constant; the target that an option's value goes to is the caller's, and
 * so is the text that it may point to.  One thread, before the program's work begins.
 * Not a parser of subcommands: each has its own table.
 *
 * A flag decides over the environment, the environment over the file, each over what
 * the target held before.
 */
#ifndef GP_OPTION_H
#define GP_OPTION_H

#include "gp_base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct gp_command;
struct gp_err;
struct gp_option;

/* Puts @value, for a switch "yes" or "no", where @option says in @target.  On failure
 * the words say what is wanted; the option and the value come in front of them.  1: the
 * option is a question and was answered, so the program ends. */
typedef int gp_option_set(void *target, const struct gp_option *option,
                          const char *value, struct gp_err *err);

/* Whether @value may be put there at all; words as above. */
typedef int gp_option_check(const struct gp_option *option, const char *value,
                            struct gp_err *err);

struct gp_option {
    const char *name;  /* --NAME, and the key in a file */
    char letter;       /* -L; 0: none */
    const char *value; /* as --help calls it; NULL: a switch */
    bool optional;     /* the value, after `=`, may be left out: it is "" then */
    const char *help;  /* a sentence or two; lines are broken by --help */
    gp_option_set *set;
    gp_option_check *check;   /* before that; NULL: any value is put */
    size_t offset;            /* of the field in the target */
    size_t size;              /* of a text that is copied, or of the field */
    uint64_t min, max;        /* of a number */
    const char *const *words; /* those that are taken, NULL at the end */
    const char *env;          /* variable; NULL: as the program's prefix says */
    bool several;             /* each value counts, also in one file */
    bool live;                /* SIGHUP takes another value, without a restart */
    const char *complete;     /* what shells offer as its value: GP_COMPLETE_...; NULL:
                               * its words, and files where the value is called FILE */
};

/* What shells complete with.  Any other text is a list that the program itself prints:
 * `PROGRAM complete LIST`. */
#define GP_COMPLETE_FILE "file"
#define GP_COMPLETE_FOLDER "folder"
#define GP_COMPLETE_PROGRAM "program"

/* Fields: char[], const char * (not copied), uint32_t, uint64_t, bool. */
gp_option_set gp_option_copy;    /* char[size] */
gp_option_set gp_option_text;    /* const char *: points to the value */
gp_option_set gp_option_u32;     /* min..max */
gp_option_set gp_option_u64;     /* min..max */
gp_option_set gp_option_percent; /* uint32_t: "30" or "30%", min..max */
gp_option_set gp_option_size;    /* uint64_t: a size with its unit, min..max bytes */
gp_option_set gp_option_yes;     /* bool */
gp_option_set gp_option_word;    /* const char *: one of @words, whose storage it is */
gp_option_set gp_option_choice;  /* uint32_t or enum: @min + the place in @words */
gp_option_set gp_option_time;    /* uint64_t: milliseconds, of "30s", "10m", "2h" or
                                  * seconds; min..max ms */
gp_option_set gp_option_seconds; /* uint32_t: seconds, of the same; min..max s */

/* HOST:PORT, or unix:PATH; @min is the port of one that names none, 0: it must.  An
 * empty text is one that is copied, and stands for no address. */
gp_option_check gp_option_check_address;
/* The same of a list to connect to, with commas between, and srv:NAME. */
gp_option_check gp_option_check_addresses;

/* Check and set. */
int gp_option_put(void *target, const struct gp_option *option, const char *value,
                  struct gp_err *err);

/* A table and where its values go. */
struct gp_option_set_of {
    const struct gp_option *options;
    size_t n;
    void *target;
};

struct gp_options {
    const char *program; /* "gpupool-server", "gpupool run" */
    const char
        *arguments; /* what follows the options, for --help; NULL: nothing does */
    const char *const *arguments_words; /* what shells complete them with: these, */
    const char *arguments_complete;     /* or GP_COMPLETE_..., or nothing */
    const struct gp_command *verbs;     /* the first argument is one of these, which */
    size_t n_verbs;                     /* have options of their own */
    const char *about;                  /* one sentence */
    const char *after;                  /* the end of --help; may be NULL */
    const char *env; /* prefix of variables; NULL: only options' own */
    bool config;     /* --config FILE is taken */
    bool first_ends; /* the first argument ends the options: a program's own follow */
    const struct gp_option_set_of *sets;
    size_t n_sets;
    /* Other names of an option in files and flags, and values that belong elsewhere;
     * NULL: none.  Returns the name that counts. */
    const char *(*alias)(const char *name, const char *value);
};

/* Apply file, environment and flags.  0: go on, *ret_first is the index of the first
 * argument that is no option.  1: --help, --version or --completion SHELL was answered
 * on stdout.  -EINVAL with words. */
int gp_options_parse(const struct gp_options *options, int argc, char **argv,
                     int *ret_first, struct gp_err *err);

/* Apply the environment alone, for what has no command line.  Its words name the
 * variable. */
int gp_options_environment(const struct gp_options *options, struct gp_err *err);

/* Apply the lines `option = value` of a file.  An option that is there twice is
 * refused, and so is every other fault, with file and line. */
int gp_options_file(const struct gp_options *options, const char *path,
                    struct gp_err *err);

/* Whether @option has the same value in targets @a and @b.  One with a setter of its
 * own is compared as @size bytes, or, where that is 0, not at all: then it is the same.
 */
bool gp_option_same(const struct gp_option *option, const void *a, const void *b);
/* Copy its value; a text is not copied, but what points to it. */
void gp_option_take(const struct gp_option *option, void *to, const void *from);

/* What has changed since a program read its options: those that it takes over, and
 * those that need a restart, as "--lease-ms, --placement". */
struct gp_option_changes {
    char live[320], fixed[320];
};
/* Take the live options that differ in @is, @n tables, over to the same in @was. */
void gp_option_take_live(const struct gp_option_set_of *was,
                         const struct gp_option_set_of *is, size_t n,
                         struct gp_option_changes *ret);

/* Call @visit for each option of all tables, and for those that every program has. */
typedef void gp_option_visit(const struct gp_options *options,
                             const struct gp_option *option, FILE *out);
void gp_options_each(const struct gp_options *options, gp_option_visit *visit,
                     FILE *out);

/* Items of a manual page, one for each option: `--mdoc`, which is in no help. */
void gp_options_man(const struct gp_options *options, FILE *out);

/* What `--help` prints. */
void gp_options_help(const struct gp_options *options, FILE *out);

/* The completion of one program or subcommand for "bash", "zsh" or "fish"; -EINVAL:
 * another shell. */
int gp_options_complete(const struct gp_options *options, const char *shell, FILE *out);

#endif
