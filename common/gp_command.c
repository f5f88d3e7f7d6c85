/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_command.h"

#include "gp_err.h"
#include "gp_str.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

const struct gp_command *
gp_command_find(const struct gp_commands *commands, const char *name)
{
    for (size_t i = 0; i < commands->n; i++)
        if (strcmp(commands->list[i].name, name) == 0)
            return &commands->list[i];
    return NULL;
}

int
gp_command_unknown(const struct gp_commands *commands, const char *name,
                   struct gp_err *err)
{
    const char *near = NULL;
    unsigned best = gp_str_distance_near(name) + 1;

    if (*name == '-')
        return gp_err_set(err, -EINVAL,
                          "%.60s: options come after the command (see %s --help)", name,
                          commands->program);
    for (size_t i = 0; i < commands->n; i++) {
        unsigned d = gp_str_distance(name, commands->list[i].name);

        if (commands->list[i].help && d < best) {
            best = d;
            near = commands->list[i].name;
        }
    }
    return gp_err_set(err, -EINVAL, "no command %.60s%s%s%s (see %s --help)", name,
                      near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
                      commands->program);
}

void
gp_commands_help(const struct gp_commands *commands, FILE *out)
{
    fprintf(out, "Usage: %s COMMAND [OPTION...]\n%s\n\n", commands->program,
            commands->about);
    for (size_t i = 0; i < commands->n; i++)
        if (commands->list[i].help)
            fprintf(out, "  %-12s%s\n", commands->list[i].name, commands->list[i].help);
    fprintf(out, "\n`%s COMMAND --help` says more", commands->program);
    fputs(commands->after ? commands->after : ".\n", out);
}

/* -------------------------------------------------------------- completion -- */

/* "gpupool-kube" is the function _gpupool_kube. */
static void
put_function(const struct gp_commands *commands)
{
    putchar('_');
    for (const char *c = commands->program; *c; c++)
        putchar(isalnum((unsigned char)*c) ? *c : '_');
}

static void
put_names(const struct gp_commands *commands, const char *between)
{
    for (size_t i = 0, n = 0; i < commands->n; i++)
        if (commands->list[i].help)
            printf("%s%s", n++ ? between : "", commands->list[i].name);
}

static int
put_each(const struct gp_commands *commands, const char *shell)
{
    for (size_t i = 0; i < commands->n; i++) {
        const struct gp_command *command = &commands->list[i];
        const char *argv[] = {command->name, "--completion", shell, NULL};

        if (command->help && command->run(3, (char **)(uintptr_t)argv) != 0)
            return -EINVAL;
    }
    return 0;
}

static void
complete_bash(const struct gp_commands *commands)
{
    put_function(commands);
    printf("() {\n    local cur=${COMP_WORDS[COMP_CWORD]}\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        mapfile -t COMPREPLY < <(compgen -W '");
    put_names(commands, " ");
    printf(" --help --version' -- \"$cur\")\n        return\n    fi\n"
           "    case ${COMP_WORDS[1]} in\n    ");
    put_names(commands, "|");
    printf(") \"");
    put_function(commands);
    printf("_${COMP_WORDS[1]//-/_}\";;\n    *) COMPREPLY=();;\n    esac\n}\n"
           "complete -F ");
    put_function(commands);
    printf(" %s\n", commands->program);
}

static void
complete_zsh(const struct gp_commands *commands)
{
    put_function(commands);
    printf("() {\n    if ((CURRENT == 2)); then\n        local -a commands=(");
    for (size_t i = 0; i < commands->n; i++)
        if (commands->list[i].help) {
            printf("\n            '%s:", commands->list[i].name);
            for (const char *c = commands->list[i].help; *c; c++)
                if (!strchr("':\\", *c))
                    putchar(*c);
            putchar('\'');
        }
    printf(")\n        _describe command commands\n        return\n    fi\n"
           "    shift words\n    ((CURRENT--))\n    (($+functions[");
    put_function(commands);
    printf("_${words[1]//-/_}])) && ");
    put_function(commands);
    printf("_${words[1]//-/_}\n}\n");
    put_function(commands);
    printf(" \"$@\"\n");
}

static void
complete_fish(const struct gp_commands *commands)
{
    for (size_t i = 0; i < commands->n; i++)
        if (commands->list[i].help) {
            printf("complete -c %s -n __fish_use_subcommand -f -a %s -d '",
                   commands->program, commands->list[i].name);
            for (const char *c = commands->list[i].help; *c; c++)
                if (!strchr("'\\", *c))
                    putchar(*c);
            printf("'\n");
        }
}

int
gp_commands_complete(const struct gp_commands *commands, const char *shell)
{
    static const struct {
        const char *name;
        void (*put)(const struct gp_commands *commands);
    } SHELLS[] = {
        {"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}};

    for (size_t i = 0; i < ARRAY_SIZE(SHELLS); i++)
        if (strcmp(shell, SHELLS[i].name) == 0) {
            if (SHELLS[i].put == complete_zsh)
                printf("#compdef %s\n", commands->program);
            if (put_each(commands, shell) < 0)
                return -EINVAL;
            SHELLS[i].put(commands);
            return fflush(stdout) == 0 ? 0 : -errno;
        }
    return -EINVAL;
}
