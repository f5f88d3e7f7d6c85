/* SPDX-License-Identifier: Apache-2.0 */
/* The sub-commands of gpupool-kube: each reads its options and runs until SIGTERM. */
#ifndef KUBE_MAIN_H
#define KUBE_MAIN_H

#include "gp_base.h"

/* Variables that stand for options: GPUPOOL_KUBE_LISTEN is --listen. */
#define KUBE_MAIN_ENV "GPUPOOL_KUBE_"

/* Exit statuses besides 0: what it did failed; its options are wrong. */
enum { KUBE_MAIN_FAILED = 1, KUBE_MAIN_USAGE = 2 };

/* @argv begins with the name of the command.  Returns an exit status. */
int kube_main_controller(int argc, char **argv);
int kube_main_webhook(int argc, char **argv);
int kube_main_node(int argc, char **argv);
int kube_main_extender(int argc, char **argv);

#endif
