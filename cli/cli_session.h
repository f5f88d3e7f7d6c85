/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: opened, told of its renewals, closed.
 *
 * Lives in `gpupool run` for as long as its program, and as a copy in the process that
 * keeps it alive (cli_keepalive_process.h, cli_keepalive.h).  One thread;
 * cli_session_open() and cli_session_close() block, with deadlines.
 *
 * The scheduler may go away and come back; the program notices nothing as long as the
 * lease holds.  When the lease is lost, the program goes on too; its CUDA calls fail
 * and say so.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli_ctl.h"
#include "gp_base.h"
#include "gp_x25519.h"

#include <stdint.h>

struct cli_wait;
struct gp_err;

struct cli_session {
    struct cli_ctl ctl; /* until its keepalive takes the socket over */
    /* of the scheduler, proven by TLS or said by another pool's */
    struct ctl_pins keys;
    uint64_t id;
    uint8_t lease_key[16];
    uint8_t secret[GP_X25519_SIZE]; /* its tickets are bound to it; goes nowhere */
    bool bound;                     /* so they are */
    uint32_t lease_ms;
    uint64_t lease_end_ns;
    uint32_t tickets_unix; /* CtlGrant.tickets_unix */
    bool warned, lost;
    bool found;    /* once closed: by a card that checks kernels, in the program */
    int report_fd; /* in the keepalive process: where struct cli_session_news go; 0:
                      nowhere */
    char lost_words[256]; /* the scheduler's */
    /* why it ends at end_ns, as it was announced; "": it was not */
    char end_words[256];
    uint64_t end_ns;
    char name[64];
    char placed[320]; /* which slices of which cards, in words */
    char pool[64];    /* another pool, which has given it; empty: the one asked */
    char *file;       /* session file */
};

/* Open a session.  @bound: nobody else can use its tickets; else also a client library
 * that cannot make the proof.  @wait: in the queue for as long as it takes, if it says
 * so; for schedulers that change their leader ten seconds.  -EREMOTE: refused,
 * *ret_refusal holds the reasons.  -EINTR: a signal ended the waiting.  On any failure
 * cli_session_close() is still due. */
int cli_session_open(struct cli_session *session, const char *scheduler,
                     const Gpupool__Ctl__CtlOpen *open, bool bound,
                     struct cli_wait *wait, Gpupool__Ctl__CtlReply **ret_refusal,
                     struct gp_err *err);

/* What the keepalive process says of the session to `gpupool run`, whose session is a
 * copy. */
struct cli_session_news {
    bool lost;       /* it has ended; else it was announced that it ends at end_ns */
    uint64_t end_ns; /* on the clock that both have */
    char words[256]; /* "": it does not end after all */
};
void cli_session_news(struct cli_session *session, const struct cli_session_news *news);

/* What its keepalive is told. */
void cli_session_renewed(struct cli_session *session,
                         const Gpupool__Ctl__CtlRenewedOne *one);
void cli_session_lost(struct cli_session *session, const char *words);
void cli_session_notice(struct cli_session *session,
                        const Gpupool__Ctl__CtlSessionNotice *notice);
/* The scheduler has not answered; it is said once, after a whole lease. */
void cli_session_late(struct cli_session *session);

/* Give it back and remove its file.  @status is the program's: what it has left behind
 * about calls that failed is repeated unless that is 0. */
void cli_session_close(struct cli_session *session, int status);

#endif
