/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a host: holds the sessions of other `gpupool run`s of its user over its
 * own connection to the scheduler (cli_renewer.h).
 *
 * One of them (cli_keepalive.h) listens on a Unix socket in the user's run folder;
 * the others connect to it and speak the control protocol, of which it understands
 * three messages: a CtlRenewMany with one session, first, asks it to hold that session;
 * a CtlClose ends it; and it sends a CtlRenewed with one session at each renewal, a
 * CtlSessionNotice, or an error when the session is gone.  A peer that goes without a
 * CtlClose leaves its session the scheduler's grace time.
 *
 * Peers are processes of the same user, by the kernel's word (SO_PEERCRED), and of the
 * same scheduler, whose addresses and key make the socket's name.  Each reaches the
 * session whose lease key it shows, and no other.
 *
 * Storage is the owner's; event loop thread only.
 */
#ifndef CLI_AGENT_H
#define CLI_AGENT_H

#include "cli_renewer.h"
#include "gp_base.h"
#include "gp_listener.h"

struct gp_err;

/* Sessions of others.  Four times what the largest host seen runs; the next one
 * holds its own. */
#define CLI_AGENT_PEERS_MAX 4096
/* A message to it: a renewal of one session, a close. */
#define CLI_AGENT_MSG_MAX 256

struct cli_agent_peer;

struct cli_agent {
    struct gp_listener listener;
    struct cli_renewer *renewer; /* the owner's */
    struct cli_agent_peer *peers;
    unsigned n_peers;
    char path[108];
};

/* "unix:/..." in the run folder for schedulers of @list, of which the key was proven
 * (@key NULL: none was).  -ENAMETOOLONG. */
int cli_agent_address(const char *list, const uint8_t *key, char *ret, size_t size);

/* Whether the process at the other end is one of our own user. */
bool cli_agent_is_own(int fd);

/* Become the agent at @address, whose sessions @renewer renews.  -EBUSY: another one
 * is becoming it now; -EADDRINUSE: there is one. */
int cli_agent_start(struct cli_agent *agent, const char *address,
                    struct cli_renewer *renewer, struct gp_loop *loop);
/* The same on a socket that listens, which becomes the agent's. */
int cli_agent_use(struct cli_agent *agent, int fd, struct cli_renewer *renewer,
                  struct gp_loop *loop);
void cli_agent_stop(struct cli_agent *agent); /* not started: a no-op */

/* What a peer says first: hold @lease's session.  @bytes has CLI_AGENT_MSG_MAX. */
size_t cli_agent_hello(const struct cli_lease *lease, uint8_t *bytes);

#endif
