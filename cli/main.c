/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool: the command line of a pool.
 *
 * Finds the subcommand and nothing more; each has its own file and its own --help.
 */
#include "cli.h"
#include "gp_log.h"

#include <stdio.h>
#include <string.h>

static int cli_version(int argc, char **argv);

static const struct {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *help;
} COMMANDS[] = {
    {"run", cli_run, "run a program on a slice of a card"},
    {"up", cli_up, "start a pool on this machine"},
    {"down", cli_down, "end it"},
    {"status", cli_status, "servers, cards, slices, sessions, owners in one table"},
    {"servers", cli_servers, "the pool servers"},
    {"sessions", cli_sessions, "the sessions"},
    {"queue", cli_queue, "who waits for room, and what tenants hold"},
    {"top", cli_top, "what the sessions use, live"},
    {"smi", cli_smi, "the session's cards as nvidia-smi shows them"},
    {"explain", cli_explain, "where a session would be placed, and why not elsewhere"},
    {"drain", cli_drain, "place nothing more on a server"},
    {"close", cli_close, "end a session of somebody else"},
    {"kube", cli_kube, "the pool in a Kubernetes cluster: install, status, doctor"},
    {"doctor", cli_doctor, "why does it not work here"},
    {"version", cli_version, "the version of this program"},
};

static int
cli_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("gpupool %s\n", GPUPOOL_VERSION);
    return CLI_OK;
}

static void
help(FILE *f)
{
    fprintf(f, "Usage: gpupool COMMAND [OPTION...]\n"
               "A remote slice of a GPU for programs nobody rebuilt.\n\n");
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++)
        fprintf(f, "  %-10s%s\n", COMMANDS[i].name, COMMANDS[i].help);
    fprintf(
        f, "\n`gpupool COMMAND --help` says more; so do gpupool(1) and gpupool(7).\n"
           "First steps: gpupool up; gpupool run --core 30 --memory 1GiB -- PROGRAM\n");
}

/* `gpupool help run` is `gpupool run --help`. */
static int
help_of(char *command)
{
    char option[] = "--help";
    char *argv[] = {command, option, NULL};

    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++)
        if (!strcmp(command, COMMANDS[i].name))
            return COMMANDS[i].fn(2, argv);
    return cli_fail(CLI_USAGE, "no command %s, see gpupool --help", command);
}

int
main(int argc, char **argv)
{
    const char *called = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = argc > 1 ? argv[1] : "";

    gp_log_init("gpupool", GP_LOG_NONE);
    if (argc > 0 && !strcmp(called ? called + 1 : argv[0], "nvidia-smi"))
        return cli_smi(argc, argv);
    if (!strcmp(name, "help") && argc > 2)
        return help_of(argv[2]);
    if (!strcmp(name, "--help") || !strcmp(name, "help") || !strcmp(name, "-h")) {
        help(stdout);
        return CLI_OK;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-v") || !strcmp(name, "-V"))
        return cli_version(0, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++)
        if (!strcmp(name, COMMANDS[i].name))
            return COMMANDS[i].fn(argc - 1, argv + 1);
    if (*name)
        fprintf(stderr, "gpupool: no command %s\n", name);
    help(stderr);
    return CLI_USAGE;
}
