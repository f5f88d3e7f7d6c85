/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of a program: finding the one that was named, help, completion.
 *
 * Constant tables; one thread.  The options of each subcommand are its own
 * (gp_option.h).
 */
#ifndef GP_COMMAND_H
#define GP_COMMAND_H

#include "gp_base.h"

#include <stdio.h>

struct gp_err;

struct gp_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name */
    const char *help;
};

struct gp_commands {
    const char *program;
    const char *about; /* one sentence */
    const char *after; /* the end of --help; may be NULL */
    const struct gp_command *list;
    size_t n;
};

const struct gp_command *gp_command_find(const struct gp_commands *commands,
                                         const char *name);
/* "no command stauts; did you mean status? (see gpupool --help)".  Returns -EINVAL. */
int gp_command_unknown(const struct gp_commands *commands, const char *name,
                       struct gp_err *err);
void gp_commands_help(const struct gp_commands *commands, FILE *out);

/* The completion of the whole program for "bash", "zsh" or "fish", on stdout; each
 * subcommand gives its own part (`--completion SHELL`).  -EINVAL: another shell. */
int gp_commands_complete(const struct gp_commands *commands, const char *shell);

#endif
