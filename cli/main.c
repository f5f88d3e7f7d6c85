/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool: the command line of a pool.
 *
 * Finds the subcommand and nothing more; each has its own file and its own --help.
 */
#include "cli.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_variables.h"
#include "gp_command.h"
#include "gp_err.h"
#include "gp_log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int cli_version(int argc, char **argv);
static int cli_completion(int argc, char **argv);

static const struct gp_command LIST[] = {
    {"run", cli_run, "run a program on a slice of a card"},
    {"job", cli_job, "programs that run after their user has gone"},
    {"up", cli_up, "start a pool on this machine"},
    {"down", cli_down, "end the local pool"},
    {"init", cli_init, "make the keys and tokens of a pool on several hosts"},
    {"status", cli_status, "servers, cards, slices, sessions, owners in one table"},
    {"servers", cli_servers, "the pool servers"},
    {"sessions", cli_sessions, "the sessions"},
    {"events", cli_events, "what happened in the pool lately"},
    {"get", cli_get, "lists and descriptions by kind, as kubectl has them"},
    {"describe", cli_describe, "everything about one session, server or card"},
    {"queue", cli_queue, "who waits for room, and what tenants hold"},
    {"usage", cli_usage, "who held and used how much, day by day"},
    {"pools", cli_pools, "the other pools that requests are handed to"},
    {"top", cli_top, "what the sessions use, live"},
    {"smi", cli_smi, "the session's cards as nvidia-smi shows them"},
    {"explain", cli_explain, "where a session would be placed, and why not elsewhere"},
    {"drain", cli_drain, "place nothing more on a server"},
    {"cordon", cli_cordon, "place nothing more on a server or one of its cards"},
    {"uncordon", cli_uncordon, "let a server or card take sessions again"},
    {"forget", cli_forget, "list a server that is dead no more"},
    {"close", cli_close, "end any session"},
    {"logs", cli_logs, "the logs of the pool on this machine"},
    {"kube", cli_kube, "the pool in a Kubernetes cluster: install, status, doctor"},
    {"doctor", cli_doctor, "why does it not work here"},
    {"context", cli_context, "the pools that you know by name"},
    {"completion", cli_completion, "completion of this command for bash, zsh or fish"},
    {"version", cli_version, "the version of this program"},
    {"complete", cli_complete, NULL}, /* asked by the shells */
    {"ptxas", cli_ptxas, NULL},       /* called by compilers */
};

static const struct gp_commands COMMANDS = {
    .program = "gpupool",
    .about = "A remote slice of a GPU for programs nobody rebuilt.",
    .after =
        "; so do gpupool(1) and gpupool(7).\n"
        "First steps: gpupool up; gpupool run --core 30 --memory 1GiB -- PROGRAM\n",
    .list = LIST,
    .n = ARRAY_SIZE(LIST),
};

static int
cli_version(int argc, char **argv)
{
    const struct gp_options options = {.program = "gpupool version",
                                       .about = "The version of this program."};
    int first, status = cli_options(&options, argc, argv, &first);

    if (status < 0)
        printf("gpupool %s\n", GPUPOOL_VERSION);
    return status < 0 ? CLI_OK : status;
}

static int
cli_completion(int argc, char **argv)
{
    static const char *const shells[] = {"bash", "zsh", "fish", NULL};
    const struct gp_options options = {
        .program = "gpupool completion",
        .arguments = "bash|zsh|fish",
        .arguments_words = shells,
        .about = "Print what the shell reads to complete this command; `make install` "
                 "puts it\nwhere the shells look.",
        .after = "For this shell: source <(gpupool completion bash)\n"};
    int first, status = cli_options(&options, argc, argv, &first);

    if (status >= 0)
        return status;
    if (first + 1 != argc || gp_commands_complete(&COMMANDS, argv[first]) == -EINVAL)
        return cli_fail(CLI_USAGE,
                        "completion: bash, zsh or fish is wanted, see gpupool "
                        "completion --help");
    return CLI_OK;
}

static int
cli_unknown(const char *name)
{
    struct gp_err err = {0};

    gp_command_unknown(&COMMANDS, name, &err);
    return cli_fail(CLI_USAGE, "%s", err.msg);
}

/* `gpupool help run` is `gpupool run --help`. */
static int
help_of(char *name)
{
    const struct gp_command *command = gp_command_find(&COMMANDS, name);
    char option[] = "--help";
    char *argv[] = {name, option, NULL};

    return command ? command->run(2, argv) : cli_unknown(name);
}

/* What was asked for has reached standard output, or the command has failed: a full
 * disk must not leave half a list that looks like a whole one. */
static int
finish(int status)
{
    int r = cli_output_flush();

    return r ? cli_fail(status ? status : CLI_FAILED,
                        "standard output cannot be written: %s", strerror(-r))
             : status;
}

static int
run(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *called = slash ? slash + 1 : argc > 0 ? argv[0] : "";
    const char *name = argc > 1 ? argv[1] : "";
    const struct gp_command *command = gp_command_find(&COMMANDS, name);

    gp_log_init("gpupool", GP_LOG_NONE);
    if (!strcmp(called, "nvidia-smi"))
        return cli_smi(argc, argv);
    if (!strcmp(called, "ptxas"))
        return cli_ptxas(argc, argv);
    if (command) {
        if (command->help &&
            command->run != cli_doctor) /* it has a finding of its own */
            cli_variables_hint();
        return command->run(argc - 1, argv + 1);
    }
    if (!strcmp(name, "help") && argc > 2)
        return help_of(argv[2]);
    if (!strcmp(name, "--version") || !strcmp(name, "-v") || !strcmp(name, "-V"))
        return cli_version(1, argv);
    if (!strcmp(name, "--completion")) /* as the daemons have it */
        return cli_completion(argc - 1, argv + 1);
    if (!strcmp(name, "--help") || !strcmp(name, "help") || !strcmp(name, "-h")) {
        gp_commands_help(&COMMANDS, stdout);
        return CLI_OK;
    }
    if (*name)
        return cli_unknown(name);
    gp_commands_help(&COMMANDS, stderr);
    return CLI_USAGE;
}

int
main(int argc, char **argv)
{
    return finish(run(argc, argv));
}
