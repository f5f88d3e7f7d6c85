/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs and librdmacm, loaded when somebody wants RDMA and not before: neither the
 * stub nor the worker depends on them.  What the headers define as inline functions
 * (post, poll, notify) needs no symbol.
 *
 * One table per process, made once, any thread.  Private to transport/.
 */
#ifndef XPORT_VERBS_H
#define XPORT_VERBS_H

#include "gp_base.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

struct gp_err;

struct xport_verbs {
    struct ibv_pd *(*alloc_pd)(struct ibv_context *ctx);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                             unsigned access);
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t len,
                                    uint64_t iova, int fd, int access); /* or NULL */
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *ctx);
    int (*destroy_comp_channel)(struct ibv_comp_channel *ch);
    struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe, void *cookie,
                                struct ibv_comp_channel *ch, int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cookie);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
    int (*query_device)(struct ibv_context *ctx, struct ibv_device_attr *attr);
    const char *(*wc_status_str)(enum ibv_wc_status status);
    int (*fork_init)(void);

    struct rdma_event_channel *(*create_event_channel)(void);
    void (*destroy_event_channel)(struct rdma_event_channel *ch);
    int (*create_id)(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *arg,
                     enum rdma_port_space ps);
    int (*destroy_id)(struct rdma_cm_id *id);
    int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
    int (*listen)(struct rdma_cm_id *id, int backlog);
    int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src,
                        struct sockaddr *dst, int timeout_ms);
    int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
    int (*create_qp)(struct rdma_cm_id *id, struct ibv_pd *pd,
                     struct ibv_qp_init_attr *attr);
    void (*destroy_qp)(struct rdma_cm_id *id);
    int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t len);
    int (*disconnect)(struct rdma_cm_id *id);
    int (*get_cm_event)(struct rdma_event_channel *ch, struct rdma_cm_event **event);
    int (*ack_cm_event)(struct rdma_cm_event *event);
    const char *(*event_str)(enum rdma_cm_event_type type);
    __be16 (*get_src_port)(struct rdma_cm_id *id);
    int (*set_option)(struct rdma_cm_id *id, int level, int name, void *value,
                      size_t len);
};

/* The table, or NULL with words: which library or symbol is missing. */
const struct xport_verbs *xport_verbs_get(struct gp_err *err);

#endif
