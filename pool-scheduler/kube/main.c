/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-kube: what a Kubernetes cluster needs of the pool, as one program with a
 * sub-command per daemon.  Each is one process with one thread.
 */
#include "gp_log.h"
#include "kube_main.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} COMMANDS[] = {
    {"controller", kube_main_controller, "bind claims to slices of the pool"},
    {"extender", kube_main_extender, "tell kube-scheduler whether the pool has room"},
    {"node-plugin", kube_main_node, "tell a kubelet that ResourceClaims are prepared"},
    {"webhook", kube_main_webhook, "give pods what they need to use them"},
};

static void
help(FILE *f)
{
    fputs("Usage: gpupool-kube COMMAND [OPTION...]\n\n", f);
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++)
        fprintf(f, "  %-12s %s\n", COMMANDS[i].name, COMMANDS[i].help);
    fputs("\ngpupool-kube COMMAND --help says more.  See gpupool-kube(8).\n", f);
}

int
main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    signal(SIGPIPE, SIG_IGN); /* libraries write(2) to peers that may be gone */
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++)
        if (strcmp(COMMANDS[i].name, command) == 0) {
            gp_log_init(command, GP_LOG_INFO);
            return COMMANDS[i].run(argc - 1, argv + 1);
        }
    if (strcmp(command, "--version") == 0) {
        puts("gpupool-kube " GPUPOOL_VERSION);
        return 0;
    }
    help(strcmp(command, "--help") == 0 ? stdout : stderr);
    return strcmp(command, "--help") == 0 ? 0 : 2;
}
