/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_verbs.h"

#include "gp_err.h"
#include "xport.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

static struct {
    struct xport_verbs table;
    bool usable;
    bool forked;   /* by a process that had loaded them */
    char why[160]; /* words when not */
} verbs;
static pthread_once_t verbs_once = PTHREAD_ONCE_INIT;

#define IBV(member, symbol)                                                            \
    {                                                                                  \
        offsetof(struct xport_verbs, member), symbol                                   \
    }
static const struct symbol {
    size_t offset;
    const char *name;
} ibverbs_symbols[] =
    {
        IBV(alloc_pd, "ibv_alloc_pd"),
        IBV(dealloc_pd, "ibv_dealloc_pd"),
        IBV(reg_mr, "ibv_reg_mr_iova2"),
        IBV(dereg_mr, "ibv_dereg_mr"),
        IBV(create_comp_channel, "ibv_create_comp_channel"),
        IBV(destroy_comp_channel, "ibv_destroy_comp_channel"),
        IBV(create_cq, "ibv_create_cq"),
        IBV(destroy_cq, "ibv_destroy_cq"),
        IBV(get_cq_event, "ibv_get_cq_event"),
        IBV(ack_cq_events, "ibv_ack_cq_events"),
        IBV(query_device, "ibv_query_device"),
        IBV(wc_status_str, "ibv_wc_status_str"),
        IBV(fork_init, "ibv_fork_init"),
},
  rdmacm_symbols[] = {
      IBV(create_event_channel, "rdma_create_event_channel"),
      IBV(destroy_event_channel, "rdma_destroy_event_channel"),
      IBV(create_id, "rdma_create_id"),
      IBV(destroy_id, "rdma_destroy_id"),
      IBV(bind_addr, "rdma_bind_addr"),
      IBV(listen, "rdma_listen"),
      IBV(resolve_addr, "rdma_resolve_addr"),
      IBV(resolve_route, "rdma_resolve_route"),
      IBV(create_qp, "rdma_create_qp"),
      IBV(destroy_qp, "rdma_destroy_qp"),
      IBV(connect, "rdma_connect"),
      IBV(accept, "rdma_accept"),
      IBV(reject, "rdma_reject"),
      IBV(disconnect, "rdma_disconnect"),
      IBV(get_cm_event, "rdma_get_cm_event"),
      IBV(ack_cm_event, "rdma_ack_cm_event"),
      IBV(event_str, "rdma_event_str"),
      IBV(get_src_port, "rdma_get_src_port"),
      IBV(set_option, "rdma_set_option"),
};

static bool
load(const char *library, const struct symbol *symbols, size_t n)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (!handle) {
        snprintf(verbs.why, sizeof(verbs.why), "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        void *fn = dlsym(handle, symbols[i].name);

        if (!fn) {
            snprintf(verbs.why, sizeof(verbs.why), "%s has no %s", library,
                     symbols[i].name);
            return false;
        }
        *(void **)((char *)&verbs.table + symbols[i].offset) = fn;
    }
    return true;
}

/* The kernel takes a context's commands from the process that opened it, and librdmacm
 * opens every adapter once: a child has none that it could use. */
static void
forked(void)
{
    verbs.forked = true;
}

static void
load_both(void)
{
    pthread_atfork(NULL, NULL, forked);
    verbs.usable =
        load("libibverbs.so.1", ibverbs_symbols, ARRAY_SIZE(ibverbs_symbols)) &&
        load("librdmacm.so.1", rdmacm_symbols, ARRAY_SIZE(rdmacm_symbols));
    if (verbs.usable) /* newer than the rest; who has not got it has no dma-bufs */
        *(void **)&verbs.table.reg_dmabuf_mr = dlsym(
            dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD), "ibv_reg_dmabuf_mr");
    /* A no-op on kernels that copy pinned pages on fork, a safeguard on older ones. */
    if (verbs.usable)
        verbs.table.fork_init();
}

int
xport_rdma_usable(struct gp_err *err)
{
    /* A look that costs nothing where there is no RDMA, as nearly everywhere. */
    DIR *dir = opendir("/sys/class/infiniband");
    int n = 0;

    if (dir) {
        while (readdir(dir))
            n++;
        closedir(dir);
    }
    if (n <= 2) /* but for . and .. */
        return gp_err_set(err, -ENODEV, "no RDMA: this host has no RDMA device");
    return xport_verbs_get(err) ? 0 : -EOPNOTSUPP;
}

const struct xport_verbs *
xport_verbs_get(struct gp_err *err)
{
    if (verbs.forked) {
        gp_err_set(err, -EOPNOTSUPP,
                   "no RDMA: this process was forked from one that uses it");
        return NULL;
    }
    pthread_once(&verbs_once, load_both);
    if (verbs.usable)
        return &verbs.table;
    gp_err_set(err, -EOPNOTSUPP, "no RDMA: %s", verbs.why);
    return NULL;
}
