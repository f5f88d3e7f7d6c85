/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the scheduler: an address, a connection, one request at a time.
 *
 * Blocking, with a deadline for everything; the caller owns the object.  `run` keeps
 * its own connection on an event loop and uses only the address from here.
 */
#ifndef CLI_CTL_H
#define CLI_CTL_H

#include "cli_reply.h"
#include "control.pb-c.h"
#include "ctl_link.h"
#include "gp_base.h"
#include "gp_net.h"

#include <stdio.h>

struct gp_err;

/* The promise: an unreachable scheduler is reported within five seconds. */
#define CLI_DEADLINE_NS (UINT64_C(5) * 1000000000)

/* Where the scheduler is: @option (cli_options.h, which knows the environment too),
 * else the local pool.  -ENOENT: neither; the words say what to do. */
int cli_scheduler_address(const char *option, char ret_address[GP_NET_NAME_MAX],
                          struct gp_err *err);

/* Where orders of an administrator go: as above, but to the Unix socket of the local
 * pool, which knows its own user without a token. */
int cli_order_address(const char *option, char ret_address[GP_NET_NAME_MAX],
                      struct gp_err *err);

/* The secrets of a pool.  `gpupool up` makes them as NAME-token in its folder. */
#define CLI_TOKEN_SERVER "server-token"
#define CLI_TOKEN_CLIENT "client-token"
#define CLI_TOKEN_ADMIN "admin-token"

/* The token for the scheduler that @scheduler (an option, or NULL) means: the first
 * line of @path, else, for the local pool, of the file @name that `gpupool up` made,
 * else "".  malloc'ed. */
int cli_token(const char *path, const char *scheduler, const char *name,
              char **ret_token, struct gp_err *err);

struct cli_ctl {
    struct ctl_link link;
    char list[GP_NET_NAME_MAX];    /* of the pool's schedulers, with commas between */
    char address[GP_NET_NAME_MAX]; /* the one of them that is asked */
    unsigned at;
    Gpupool__Ctl__CtlRole role;  /* proven, for the next scheduler that is asked */
    const char *token;           /* the caller's; NULL: none was */
    const struct ctl_pins *pins; /* the caller's; NULL: the environment's */
    uint32_t next_id;
};

/* TLS by the environment's choice (GPUPOOL_TLS, GPUPOOL_SCHEDULER_KEY), or NULL. */
int cli_ctl_tls(const struct tls_api **ret, struct gp_err *err);
int cli_ctl_open(struct cli_ctl *ctl, const char *option, struct gp_err *err);
/* To the schedulers of another pool, of which one of the keys @pins (outlives @ctl) is
 * known; the environment's are those of the user's own. */
int cli_ctl_open_other(struct cli_ctl *ctl, const char *addresses,
                       const struct ctl_pins *pins, struct gp_err *err);
/* Prove @token (if it is not empty; it outlives @ctl) to the scheduler and have it
 * prove that it knows the token too; requests of @ctl then go without one.  With the
 * environment's choice of a clear token nothing happens here. */
int cli_ctl_prove(struct cli_ctl *ctl, Gpupool__Ctl__CtlRole role, const char *token,
                  struct gp_err *err);
/* What a request carries as its token: nothing, unless it goes in clear by choice. */
char *cli_ctl_shown(const char *token);
void cli_ctl_close(struct cli_ctl *ctl); /* zeroed or never opened: set link.fd to -1 */

/* Ask the next of the pool's schedulers from now on. */
void cli_ctl_next(struct cli_ctl *ctl);
/* Another one, over a new connection; without a proof, as after cli_ctl_open(). */
int cli_ctl_open_next(struct cli_ctl *ctl, struct gp_err *err);

/* Send @req (its id is set here) and wait for the answer.  A scheduler that does not
 * lead names the one that does, which is asked then; while none leads, until the
 * timeout.
 *
 * 0: *ret_reply is the caller's (cli_reply_free()).  -EREMOTE: a refusal; *ret_reply is
 * set as well, err has its words.  Else the link failed.
 */
int cli_ctl_call(struct cli_ctl *ctl, Gpupool__Ctl__CtlRequest *req,
                 uint64_t timeout_ns, Gpupool__Ctl__CtlReply **ret_reply,
                 struct gp_err *err);

/* The exit status of a command whose call failed with @r: CLI_USAGE or CLI_REFUSED as
 * the refusal @reply (may be NULL) says, CLI_FAILED for an order that is in effect and
 * not recorded, CLI_NO_POOL when nobody was reached. */
int cli_ctl_exit(int r, const Gpupool__Ctl__CtlReply *reply);

/* The same for an answer that may take long: -ECHILD as soon as one of the processes
 * behind @pidfds has ended. */
int cli_ctl_call_watching(struct cli_ctl *ctl, Gpupool__Ctl__CtlRequest *req,
                          uint64_t timeout_ns, const int *pidfds, unsigned n,
                          Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err);

/* The scheduler's keys as a message lists them. */
struct ctl_pins cli_ctl_pins(const ProtobufCBinaryData *list, size_t n);

/* One line per card; with @grouped the cards of a server of which the same is true are
 * one line. */
void cli_print_reasons(FILE *f, bool grouped, Gpupool__Ctl__CtlReason *const *reasons,
                       size_t n, uint32_t left_off);

#endif
