/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_pinned.h"

#include "drv.h"
#include "gp_base.h"
#include "gp_err.h"
#include "gp_log.h"
#include "wrk.h"
#include "wrk_bulk.h"
#include "wrk_ctx.h"
#include "wrk_slot.h"
#include "wrk_wait.h"
#include "xport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* How long the session's turn to copy is, at least. */
#define PIECE (8u << 20)
#define HOSTREGISTER_PORTABLE 0x1u

struct pinned {
    struct pinned *next; /* in kept */
    uint8_t *mem;
    uint64_t size;
    CUcontext ctx; /* it was registered with; NULL: that context is gone */
    uint32_t ctx_index;
    bool for_good; /* more streams used it than there are marks: it stays mapped */
    struct wrk_slot mark[WRK_PINNED_MARKS]; /* of the last copy in each of... */
    CUstream stream[WRK_PINNED_MARKS];
};

/* One process is one client. */
static struct pinned *pieces[WRK_PINNED_MAX];
static struct pinned *kept;    /* given back by the client, not by us */
static _Atomic uint64_t bytes; /* mapped; a thread that waits for copies unmaps */

int
wrk_pinned_map(int fd, uint64_t size, void **ret, struct gp_err *err)
{
    static const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    int have = fcntl(fd, F_GET_SEALS);
    void *mem;

    if (have < 0 || (have & seals) != seals || have & F_SEAL_WRITE)
        return gp_err_set(err, -EPROTO, "not a file that keeps its size");
    if (fstat(fd, &st) < 0 || size == 0 || size > WRK_PINNED_BYTES_MAX ||
        (uint64_t)st.st_size != size || size % 4096)
        return gp_err_set(err, -EPROTO, "not as long as it is said to be");
    mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (mem == MAP_FAILED)
        return gp_err_set(err, -errno, "mapping it: %s", strerror(errno));
    *ret = mem;
    return 0;
}

static CUresult
pinned_register(struct wrk *w, struct pinned *p)
{
    CUresult r;

    if (p->ctx)
        return CUDA_SUCCESS;
    r = WRK_CALL(w, cuMemHostRegister_v2, p->mem, p->size, HOSTREGISTER_PORTABLE);
    if (r == CUDA_SUCCESS) {
        p->ctx = wrk_ctx_current(w);
        p->ctx_index = w->ctx_index;
    }
    return r;
}

static void
pinned_free(struct wrk *w, struct pinned *p)
{
    if (p->ctx)
        WRK_CALL(w, cuMemHostUnregister, p->mem);
    if (p->mem)
        munmap(p->mem, p->size);
    atomic_fetch_sub(&bytes, p->size);
    free(p);
}

static int
pinned_new(struct wrk *w, int fd, uint64_t size, struct pinned **ret,
           struct gp_err *err)
{
    struct pinned *p;
    void *mem;
    int r = wrk_pinned_map(fd, size, &mem, err);

    if (r < 0)
        return r;
    p = calloc(1, sizeof(*p));
    if (!p) {
        munmap(mem, size);
        return gp_err_set(err, -ENOMEM, "out of memory");
    }
    p->mem = mem;
    p->size = size;
    atomic_fetch_add(&bytes, size);
    if (pinned_register(w, p) != CUDA_SUCCESS) {
        pinned_free(w, p);
        return gp_err_set(err, -EIO, "the driver does not register it");
    }
    *ret = p;
    return 0;
}

bool
wrk_pinned_add(struct wrk *w, uint32_t id, uint64_t size)
{
    CLEANUP_FD int fd = xport_take_fd(w->priv->conn);
    struct gp_err err = {0};
    int r = fd;

    if (fd < 0)
        gp_err_set(&err, fd, "no descriptor has come");
    else if (id >= WRK_PINNED_MAX || pieces[id])
        r = gp_err_set(&err, -EPROTO, "number %u is not free", id);
    else if (size > WRK_PINNED_BYTES_MAX - atomic_load(&bytes))
        r = gp_err_set(&err, -EDQUOT, "the client has enough of it");
    else
        r = pinned_new(w, fd, size, &pieces[id], &err);
    if (r < 0)
        gp_log_debug("bulk", "memory of the client stays its own: %s",
                     gp_err_msg(&err, r));
    return r >= 0;
}

/* ---- giving back ------------------------------------------------------------------
 *
 * Always on a waiter thread: a driver may wait for all work of the card before it takes
 * a registration back, and that work for frames that the reader has not read.
 */

struct unpin_job {
    struct wrk_job job;
    struct pinned *p;
};

static void
unpin_run(struct wrk *w, struct wrk_job *job)
{
    struct unpin_job *unpin = container_of(job, struct unpin_job, job);

    if (!atomic_load(&w->priv->stopping)) {
        for (unsigned i = 0; i < WRK_PINNED_MARKS; i++)
            wrk_slot_wait(w, &unpin->p->mark[i]);
        pinned_free(w, unpin->p);
    }
    free(unpin);
}

/* Until the process ends, and counted until then. */
static void
pinned_keep(struct pinned *p)
{
    p->next = kept;
    kept = p;
}

void
wrk_pinned_drop(struct wrk *w, uint32_t id)
{
    struct pinned *p = id < WRK_PINNED_MAX ? TAKE_PTR(pieces[id]) : NULL;
    struct unpin_job *unpin;

    if (!p)
        return;
    if (p->for_good) {
        pinned_keep(p);
        return;
    }
    if (!p->ctx) {
        pinned_free(w, p);
        return;
    }
    unpin = calloc(1, sizeof(*unpin));
    if (unpin)
        *unpin = (struct unpin_job){.job.run = unpin_run, .job.ctx = p->ctx, .p = p};
    if (!unpin || !wrk_wait_background(w, &unpin->job)) {
        free(unpin);
        pinned_keep(p);
    }
}

/* ---- copies -----------------------------------------------------------------------
 */

static void
pinned_mark(struct wrk *w, struct pinned *p, CUstream stream)
{
    unsigned i = 0;

    while (i < WRK_PINNED_MARKS && !(p->mark[i].event && p->stream[i] == stream &&
                                     p->mark[i].ctx_index == w->ctx_index))
        i++;
    if (i < WRK_PINNED_MARKS) {
        WRK_CALL(w, cuEventRecord, p->mark[i].event, stream);
        return;
    }
    for (i = 0; i < WRK_PINNED_MARKS && !wrk_slot_idle(w, &p->mark[i]); i++)
        ;
    if (i == WRK_PINNED_MARKS) {
        p->for_good = true;
        return;
    }
    p->stream[i] = stream;
    wrk_slot_mark(w, &p->mark[i], w->ctx_index, stream);
}

static CUresult
pinned_move(struct wrk *w, uint8_t *host, CUdeviceptr device, uint64_t n, bool down,
            CUstream stream)
{
    CUresult r = CUDA_SUCCESS;

    for (uint64_t at = 0; at < n && r == CUDA_SUCCESS; at += PIECE) {
        uint64_t len = gp_min(n - at, (uint64_t)PIECE);

        wrk_bulk_moves(w, len);
        r = down
                ? WRK_CALL(w, cuMemcpyDtoHAsync_v2, host + at, device + at, len, stream)
                : WRK_CALL(w, cuMemcpyHtoDAsync_v2, device + at, host + at, len,
                           stream);
    }
    return r;
}

CUresult
wrk_pinned_start(struct wrk *w, const struct wrk_pinned_place *place,
                 CUdeviceptr device, bool down, CUstream stream)
{
    struct pinned *p = place->id < WRK_PINNED_MAX ? pieces[place->id] : NULL;
    CUresult r;

    if (!p || place->n > p->size || place->offset > p->size - place->n)
        return CUDA_ERROR_INVALID_VALUE;
    r = pinned_register(w, p);
    if (r != CUDA_SUCCESS)
        return r;
    r = pinned_move(w, p->mem + place->offset, device, place->n, down, stream);
    pinned_mark(w, p, stream); /* also after an error: pieces before it are under way */
    return r;
}

void
wrk_pinned_forget(uint32_t ctx_index)
{
    for (uint32_t id = 0; id < WRK_PINNED_MAX; id++) {
        struct pinned *p = pieces[id];

        if (!p)
            continue;
        for (unsigned i = 0; i < WRK_PINNED_MARKS; i++)
            wrk_slot_forget(&p->mark[i], ctx_index);
        if (p->ctx_index == ctx_index)
            p->ctx = NULL;
    }
}
