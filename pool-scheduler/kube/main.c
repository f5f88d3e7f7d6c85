/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-kube: what a Kubernetes cluster needs of the pool, as one program with a
 * sub-command per daemon.  Each is one process with one thread.
 */
#include "gp_command.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_private.h"
#include "kube_main.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct gp_command LIST[] = {
    {"controller", kube_main_controller, "bind claims to slices of the pool"},
    {"extender", kube_main_extender, "tell kube-scheduler whether the pool has room"},
    {"node-plugin", kube_main_node, "tell a kubelet that ResourceClaims are prepared"},
    {"webhook", kube_main_webhook, "give pods what they need to use them"},
};

static const struct gp_commands COMMANDS = {
    .program = "gpupool-kube",
    .about = "What a Kubernetes cluster needs of the pool.",
    .after = "; so does gpupool-kube(8).\n",
    .list = LIST,
    .n = ARRAY_SIZE(LIST),
};

int
main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct gp_command *command = gp_command_find(&COMMANDS, name);
    struct gp_err err = {0};

    gp_private_begin(NULL);
    signal(SIGPIPE, SIG_IGN); /* libraries write(2) to peers that may be gone */
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error, not a death */
    if (command) {
        gp_log_init(command->name, GP_LOG_INFO);
        gp_log_warn_environment("kube");
        return command->run(argc - 1, argv + 1);
    }
    if (strcmp(name, "--version") == 0) {
        puts("gpupool-kube " GPUPOOL_VERSION);
        return 0;
    }
    if (strcmp(name, "--completion") == 0 && argc == 3)
        return gp_commands_complete(&COMMANDS, argv[2]) < 0 ? 2 : 0;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        gp_commands_help(&COMMANDS, stdout);
        return 0;
    }
    if (*name) {
        gp_command_unknown(&COMMANDS, name, &err);
        fprintf(stderr, "gpupool-kube: %s\n", err.msg);
    } else {
        gp_commands_help(&COMMANDS, stderr);
    }
    return 2;
}
