/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a worker and the supervisor while the worker serves: fixed-size
 * messages over a SOCK_SEQPACKET pair, with a descriptor where the kind says so.
 *
 * Both binaries come from one build, but for a worker that another supervisor has taken
 * over: fields may be appended, are zero in a message of who does not know them, and
 * are left out by who reads less; an order that a worker does not know is passed over.
 * The supervisor trusts no field of a message, because a worker may have been taken
 * over by its client.
 */
#ifndef WRK_REQUEST_H
#define WRK_REQUEST_H

#include "tls.h"
#include "wire_image.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* Behind an image in its file: a NUL, and what a worker has noted of it (wrk_images.h).
 */
#define WRK_REQUEST_IMAGE_TAIL 17u

enum wrk_ask_kind {
    /* Worker: is the image of name and proof here?  Answered with the same kind; a
     * descriptor comes along if it is, and @own says that this session brought it. */
    WRK_REQUEST_IMAGE = 1,
    /* Worker, with a descriptor: keep this image, behind which its file has
     * WRK_REQUEST_IMAGE_TAIL bytes.  Not answered. */
    WRK_REQUEST_KEEP = 2,
    /* Supervisor, with a descriptor: connection number @own of the client, of round
     * @bytes (attach.proto). */
    WRK_REQUEST_STRIPE = 3,
    /* Worker: connect me to server number @own of the session, whose worker's cookie is
     * in @secret.  Answered with the same kind, and a descriptor if that was possible.
     */
    WRK_REQUEST_PEER = 4,
    /* Supervisor, with a descriptor: server number @own of the session has connected.
     */
    WRK_REQUEST_PEER_IN = 5,
    /* Worker, with a descriptor: keep this object (@own: enum wrk_share_kind) of @bytes
     * on @slice for other workers of the session.  Answered with the same kind, and its
     * token in @secret; @own is 0 if that was too many, or one of that name is here. */
    WRK_REQUEST_SHARE = 6,
    /* Worker: the object of kind @own whose token is in @secret.  Answered with the
     * same kind, its @bytes and @slice, and a descriptor if there is one. */
    WRK_REQUEST_SHARED = 7,
    /* Worker: it holds that object once less.  Not answered. */
    WRK_REQUEST_UNSHARE = 8,
    /* Supervisor, on WRK_FD_LINK, with a descriptor: the connection for
     * acknowledgements of link number @own. */
    WRK_REQUEST_ACKS = 9,
    /* The same: link number @own, whose client has @bytes of our stream.  @slice 1: the
     * link may be RDMA, to the one who shows the cookie in @secret; a worker that knows
     * nothing of that goes on over TCP. */
    WRK_REQUEST_LINK = 10,
    /* Supervisor, on WRK_FD_ADOPT, with a descriptor: the notice and the segment of a
     * supervisor that has taken over from another. */
    WRK_REQUEST_SEGMENT = 11,
    WRK_REQUEST_NOTICE = 12,
    /* Worker: its client has been answered, so its start is over.  Not answered. */
    WRK_REQUEST_STARTED = 13,
    /* Supervisor, on WRK_FD_LINK, with a descriptor: the client's control connection
     * (wrk_control.h), in place of the one before. */
    WRK_REQUEST_CONTROL = 14,
};

enum wrk_share_kind {
    WRK_SHARE_MEMORY = 1,
    WRK_SHARE_POOL = 2,
    /* Memory that a driver opens by name (wrk_shm.h): the worker says the token in
     * @secret, which is of the name, and the answer has another one if the supervisor
     * does not know this kind. */
    WRK_SHARE_FILE = 3,
};

/* Bytes of a token: enough that nobody guesses one. */
#define WRK_SHARE_TOKEN 16

struct wrk_request {
    uint32_t kind;
    uint32_t own;
    uint64_t bytes;
    uint64_t striped, striped_sent; /* LINK: the same of payloads over stripes */
    uint32_t slice;
    uint32_t seq; /* of a worker's request, and of its answer */
    uint8_t name[GP_BLAKE3_SIZE];
    uint8_t secret[GP_BLAKE3_SIZE]; /* KEEP: the secret; IMAGE: the proof */
    struct tls_keys tls; /* with a connection: of its TLS, if it has a suite */
};
/* The least that everybody sends; fields may be appended, nothing else. */
#define WRK_REQUEST_MIN 192
static_assert(sizeof(struct wrk_request) == WRK_REQUEST_MIN,
              "workers of other builds send and receive it");

/* Send @ask, and @fd with it unless it is -1; @flags of sendmsg().  0 or -errno. */
int wrk_request_send(int sock, const struct wrk_request *ask, int fd, int flags);

/* Whether the peer has left as much unread as it may.  Descriptors that are on their
 * way count for the sender's user, of whom they may be no more than a process may open,
 * so a worker that does not read gets no more of them. */
bool wrk_request_is_full(int sock);

/* Receive one; *ret_fd is the caller's, or -1: there was none, or this process had no
 * room for it.  -EAGAIN, -ECONNRESET; -EPROTO: it is too short, or has more than one
 * descriptor, and all of them are closed. */
int wrk_request_recv(int sock, struct wrk_request *ret, int *ret_fd, int flags);

#endif
