/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server for unary calls on a Unix socket: HTTP/2 by libnghttp2, messages as
 * bytes.
 *
 * Caller's storage, on the event loop's thread.  Made for a kubelet, which opens a few
 * connections and sends small messages; streams and compression are refused as gRPC
 * says (status 12, UNIMPLEMENTED).
 */
#ifndef KUBE_GRPC_H
#define KUBE_GRPC_H

#include "gp_base.h"
#include "gp_loop.h"

struct gp_err;
struct kube_grpc_conn;

/* A kubelet's requests are a few KiB: claims of one pod. */
#define KUBE_GRPC_MESSAGE_MAX (1024u * 1024u)
/* A kubelet keeps one connection to each socket. */
#define KUBE_GRPC_CONNS_MAX 16

enum { KUBE_GRPC_OK = 0, KUBE_GRPC_INVALID = 3, KUBE_GRPC_UNIMPLEMENTED = 12 };

struct kube_grpc {
    struct gp_loop_fd listener;
    struct gp_loop *loop;
    struct kube_grpc_conn *conns;
    unsigned n_conns;
    /* Answer the call of @path ("/package.Service/Method"): a gRPC status; with OK
     * *ret_reply is malloc'ed, or NULL for an empty message. */
    int (*answer)(void *arg, const char *path, const uint8_t *msg, size_t len,
                  uint8_t **ret_reply, size_t *ret_len);
    void *arg;
};

/* Listen on the Unix socket @path.  @answer and @arg are set. */
int kube_grpc_start(struct kube_grpc *grpc, struct gp_loop *loop, const char *path,
                    struct gp_err *err);
void kube_grpc_stop(struct kube_grpc *grpc);

#endif
