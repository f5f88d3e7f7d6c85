/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one session alive, with as few connections to the scheduler as it takes: one
 * for all sessions of a host that are of the same user and scheduler.
 *
 *     alone     holds its session over its own connection (cli_renewer.h)
 *     joined    another `gpupool run` on this host, the agent, holds it (cli_agent.h)
 *     serving   alone, and the agent for others
 *
 * It begins alone and looks for an agent; if there is none it becomes the agent.  When
 * an agent is gone, or says nothing for the better part of a lease, its peers do the
 * same again, at once, which the scheduler's grace time covers; whoever does not get an
 * answer soon is alone, and tries again at each renewal.  So an agent is never needed
 * for a session to go on.
 *
 * Storage is the owner's; event loop thread only.
 */
#ifndef CLI_KEEPALIVE_H
#define CLI_KEEPALIVE_H

#include "cli_agent.h"
#include "cli_renewer.h"
#include "gp_base.h"
#include "gp_loop.h"
#include "gp_msg.h"

struct cli_session;

struct cli_keepalive {
    struct cli_session *session;
    struct gp_loop *loop;
    struct cli_renewer renewer;    /* alone, serving */
    struct cli_lease lease;        /* the session, there; its id and key always */
    bool shares;                   /* looks for an agent */
    char address[GP_NET_NAME_MAX]; /* where it is */
    struct cli_agent agent;        /* serving */
    struct gp_msg_conn conn;       /* to an agent */
    bool connected, joined;        /* it is there; it has answered */
    struct gp_loop_timer timer;    /* what follows if nothing comes until then */
    uint64_t patience_ns;          /* until then an agent is looked for */
    uint64_t not_before_ns;        /* before that none is looked for */
};

/* @shares: with other sessions of this host, if the scheduler knows how. */
void cli_keepalive_start(struct cli_keepalive *keep, struct cli_session *session,
                         struct gp_loop *loop, bool shares);
/* Let go of the session, and of those of others; @close: end it. */
void cli_keepalive_stop(struct cli_keepalive *keep,
                        bool close); /* not started: a no-op */

#endif
