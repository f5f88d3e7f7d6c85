/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading again, without a restart, what an administrator changes (SIGHUP): options,
 * the token, the scheduler's keys, the audit log.
 *
 * Sessions go on; limits of a client process hold for those that attach from then on.
 * What needs a restart is named in the log.  All of it or nothing: a file with a fault
 * leaves everything as it was.  Event loop thread only.
 */
#ifndef SRV_RELOAD_H
#define SRV_RELOAD_H

struct srv;

void srv_reload(struct srv *srv);

#endif
