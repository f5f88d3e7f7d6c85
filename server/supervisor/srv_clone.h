/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new process that execs at once, without a copy of our memory.
 *
 * fork() copies the page tables of a process that is about to throw them away, and
 * makes each page that its parent then writes a fault: for a server a tenth of what an
 * attachment costs.  This is what vfork() does, with a stack of its own for the child
 * and, where there is one, a control group to be born in.
 */
#ifndef SRV_CLONE_H
#define SRV_CLONE_H

#include "gp_base.h"

#include <sys/types.h>

/* In the new process, in the memory of its parent, whose thread waits until it execs or
 * ends: async-signal-safe, changes nothing that the parent reads, and does not return.
 * All signals are blocked.  *@arg is the parent's. */
typedef void srv_clone_start(void *arg);

/* The process's number, or -errno.  @cgroup: descriptor of a control group of version
 * 2, or -1.  Any thread. */
pid_t srv_clone(int cgroup, srv_clone_start *start, void *arg);

#endif
