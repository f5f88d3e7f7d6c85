/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attachments whose TCP connection broke and may come back.
 *
 * The worker keeps its state.  Here is noted that its client is away, and for how long
 * it may be; a client that comes back shows a cookie that is good for one link.  The
 * old link is shut down, because a client knows that its link is dead before we do, and
 * the new one goes to the worker.  A link's connection for acknowledgements, which
 * comes later or never (xport_resume.h), has a cookie of its own.
 *
 * The channel carries control connections (wrk_control.h) too, for every attachment.
 *
 * A connection for an attachment that began with TLS has to be TLS; its keys are its
 * own.
 *
 * A client whose process has died will not come back.  An orderly end says so to the
 * worker; of a process that runs on this host, and was killed, we look for its entry in
 * /proc.  One that was killed elsewhere keeps its worker until the time is over.
 *
 * Owned by its worker; event-loop thread only.
 */
#ifndef SRV_RESUME_H
#define SRV_RESUME_H

#include "attach_proof.h"

#include <stdbool.h>
#include <stdint.h>

struct Gpupool__AttachRequest;
struct gp_err;
struct srv;
struct srv_worker;
struct tls_keys;

/* How much longer than the worker we wait for its client: it is the worker that ends.
 */
#define SRV_RESUME_SLACK_S 2

/* The client's process, to see whether it lives. */
void srv_resume_watch(struct srv_worker *w, uint32_t pid, int fd);

/* For a new worker: its end of the channel for links in *ret_fd.  @key: of the
 * attachment; NULL: one is drawn.  @final_rdma: the connection may turn out to be RDMA
 * of a client that does not come back from that.  @secure: it is TLS. */
int srv_resume_new(struct srv_worker *w, const uint8_t *key, bool final_rdma,
                   bool secure, uint32_t seconds, int *ret_fd, struct gp_err *err);
/* For a worker that is adopted: as its kept memory says, with our end of that channel.
 */
int srv_resume_adopt(struct srv_worker *w, int channel);
/* That end; stays its own. */
int srv_resume_channel(const struct srv_worker *w);
const uint8_t *srv_resume_key(const struct srv_worker *w);
void srv_resume_free(struct srv_worker *w);

/* Its link is gone: true if it may come back; else, and when the time is over, @gone is
 * called. */
bool srv_resume_away(struct srv_worker *w,
                     void (*gone)(struct srv_worker *w, const char *why));

/* Whose connection comes with the resume_token of @req.  NULL: there is no such
 * attachment (any more), or that connection was made already. */
struct srv_worker *srv_resume_find(const struct srv *srv,
                                   const struct Gpupool__AttachRequest *req,
                                   bool secure);

/* Hand it to the worker; @fd stays the caller's.  Calls @back with a descriptor of a
 * new link, which it owns. */
int srv_resume_give(struct srv_worker *w, const struct Gpupool__AttachRequest *req,
                    int fd, const struct tls_keys *tls,
                    void (*back)(struct srv_worker *w, int fd));

/* The worker whose control connection comes with the control_cookie of @req, which is
 * used up by this, whichever transport its client uses.  -ENOENT: there is no such
 * attachment (any more), or that connection was made already.  -EAGAIN: the worker has
 * not read several of them yet. */
int srv_resume_control(struct srv *srv, const struct Gpupool__AttachRequest *req,
                       bool secure, struct srv_worker **ret);

/* Hand @fd to it; @fd stays the caller's.  It writes to the connection at once. */
int srv_resume_control_give(struct srv_worker *w, int fd, const struct tls_keys *tls);

#endif
