/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC client of one connection in clear text, for etcd_wire.c: HTTP/2 by libnghttp2,
 * unary calls, several outstanding.  Failures end the program.  One thread.
 */
#ifndef ETCD_GRPC_H
#define ETCD_GRPC_H

#include "gp_base.h"

#include <stdint.h>

struct etcd_grpc;

/* @done has the message of the answer, or NULL when the call failed; it may call
 * again. */
struct etcd_grpc_call {
    const uint8_t *message; /* stays until it is done */
    size_t size;
    void (*done)(struct etcd_grpc_call *call, const uint8_t *answer, size_t size);
    /* The rest is etcd_grpc.c's. */
    size_t sent, got;
    bool ok;
    uint8_t answer[(size_t)16 * 1024];
};

/* @address is HOST:PORT, @method as "/etcdserverpb.KV/Txn". */
struct etcd_grpc *etcd_grpc_new(const char *address, const char *method);
void etcd_grpc_free(struct etcd_grpc *grpc);

void etcd_grpc_start(struct etcd_grpc *grpc, struct etcd_grpc_call *call);
/* Send what was started and wait until something arrives. */
void etcd_grpc_run(struct etcd_grpc *grpc);

#endif
