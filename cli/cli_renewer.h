/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to a scheduler, and the sessions that it holds and renews.
 *
 * Sessions that are due about the same time are renewed by one request (CtlRenewMany),
 * so that a host with a thousand sessions makes a few requests each half lease.  The
 * connection is made again with growing pauses when it breaks, and goes to the
 * scheduler that leads.  A scheduler that is older than such requests is asked for one
 * session at a time.
 *
 * The renewer's and the leases' storage is their owners'; event loop thread only.  It
 * knows no token: whoever has a session's lease key may hold it.
 */
#ifndef CLI_RENEWER_H
#define CLI_RENEWER_H

#include "control.pb-c.h"
#include "ctl_addresses.h"
#include "ctl_dial.h"
#include "ctl_limits.h"
#include "ctl_link.h"
#include "gp_base.h"
#include "gp_loop.h"
#include "gp_msg.h"
#include "gp_net.h"

struct cli_renewer;

/* The lease of a session that is held.  What becomes of it is called back; a callback
 * may remove this session, and no other. */
struct cli_lease {
    uint64_t id;
    uint8_t lease_key[CTL_LEASE_KEY_SIZE];
    uint32_t tickets_unix; /* CtlGrant.tickets_unix of the last one handed on */
    /* Renewed.  @one->grant: new tickets, or NULL. */
    void (*on_renewed)(struct cli_lease *lease, const Gpupool__Ctl__CtlRenewedOne *one);
    /* It is gone, for @words, and not held any more. */
    void (*on_lost)(struct cli_lease *lease, const char *words);
    void (*on_notice)(struct cli_lease *lease,
                      const Gpupool__Ctl__CtlSessionNotice *notice);
    /* Asked before each renewal, or NULL: whoever wants it held is gone and may hold it
     * otherwise, so that a renewal would take it away; it is removed soon. */
    bool (*is_left)(const struct cli_lease *lease);
    /* The renewer's: */
    struct cli_renewer *renewer; /* NULL: not held */
    uint64_t due_ns;
    uint32_t lease_ms; /* 0: not renewed yet */
    bool taken_back;   /* renewed again soon after the next renewal */
    struct cli_lease *next, **link;
};

struct cli_renewer {
    struct gp_loop *loop;
    char list[GP_NET_NAME_MAX]; /* the pool's schedulers */
    struct ctl_route route;     /* through them */
    struct ctl_pins keys;       /* of the scheduler, proven by TLS or said over it */
    struct gp_msg_conn conn;
    bool connected;
    struct ctl_dial dial; /* a connection that is being made */
    bool single;          /* the scheduler is older than batches */
    struct gp_loop_timer timer;
    unsigned attempts;
    uint64_t not_before_ns;                 /* nothing is asked before that */
    uint32_t next_id, request;              /* id of the renewal under way; 0: none */
    struct cli_lease *asked[CTL_RENEW_MAX]; /* in it; NULL: removed since */
    size_t n_asked;
    struct cli_lease *sessions;
    /* The scheduler did not answer, and is asked again; or NULL. */
    void (*on_trouble)(struct cli_renewer *renewer);
};

/* To the schedulers of @list, of which the one at @address is known to lead. */
void cli_renewer_init(struct cli_renewer *renewer, struct gp_loop *loop,
                      const char *list, const char *address,
                      const struct ctl_pins *keys);
/* Use the connection @link, which becomes the renewer's. */
int cli_renewer_use(struct cli_renewer *renewer, struct ctl_link *link);
/* End the connection; it is made again for the next renewal. */
void cli_renewer_hang_up(struct cli_renewer *renewer);
/* Nothing is held any more; the connection ends. */
void cli_renewer_fini(struct cli_renewer *renewer);

/* Hold a session, whose first renewal is due in @after_ns. */
void cli_renewer_add(struct cli_renewer *renewer, struct cli_lease *lease,
                     uint64_t after_ns);
void cli_renewer_remove(struct cli_lease *lease); /* not held: a no-op */
/* Renew it at once. */
void cli_renewer_hurry(struct cli_lease *lease);
/* The same, and once more two seconds later: somebody else who was asked to hold it and
 * gives it up may have renewed it in between. */
void cli_renewer_take_back(struct cli_lease *lease);
/* End it; @lost: unless somebody else holds it within the scheduler's grace time.  It
 * is not held any more. */
void cli_renewer_close(struct cli_lease *lease, bool lost);

/* A CtlClose as bytes for @lease's session; returns their number. */
#define CLI_CLOSE_MAX 64
size_t cli_close_message(const struct cli_lease *lease, uint32_t id, bool lost,
                         uint8_t bytes[CLI_CLOSE_MAX]);

#endif
