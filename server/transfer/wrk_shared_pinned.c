/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_shared_pinned.h"

#include "drv.h"
#include "gp_base.h"
#include "gp_err.h"
#include "gp_log.h"
#include "wire_lines.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_changed_pages.h"
#include "wrk_copy.h"
#include "wrk_ctx.h"
#include "wrk_parts.h"
#include "wrk_staging.h"
#include "wrk_unified.h"
#include "wrk_wait.h"
#include "wrk_waiters.h"
#include "xport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long the session's turn to copy is, at least. */
#define PIECE (8u << 20)
#define HOSTREGISTER_PORTABLE 0x1u
#define HOSTREGISTER_DEVICEMAP 0x2u

struct pinned {
    struct pinned *next; /* of those that are kept */
    uint8_t *mem;
    uint8_t *shadow; /* of pages of our own: what both ends last agreed on */
    struct wrk_changed_pages changed; /* of large ones: what to compare with it */
    uint64_t size;
    bool placed;   /* at an address that the client has too (wrk_unified.h) */
    CUcontext ctx; /* it was registered with; NULL: that context is gone */
    uint32_t ctx_index;
    bool for_good; /* more streams used it than there are marks: it stays mapped */
    struct wrk_staging mark[WRK_PINNED_FENCES]; /* of the last copy in each of... */
    CUstream stream[WRK_PINNED_FENCES];
};

/* One process is one client. */
static struct pinned *pieces[WRK_PINNED_MAX];
static _Atomic uint64_t bytes; /* mapped; a thread that waits for copies unmaps */

static int
pinned_check(int fd, uint64_t size, struct gp_err *err)
{
    static const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    int have = fcntl(fd, F_GET_SEALS);

    if (have < 0 || (have & seals) != seals || have & F_SEAL_WRITE)
        return gp_err_set(err, -EPROTO, "not a file that keeps its size");
    if (fstat(fd, &st) < 0 || size == 0 || size > WRK_PINNED_BYTES_MAX ||
        (uint64_t)st.st_size != size || size % 4096)
        return gp_err_set(err, -EPROTO, "not as long as it is said to be");
    return 0;
}

int
wrk_pinned_map(int fd, uint64_t size, void **ret, struct gp_err *err)
{
    int r = pinned_check(fd, size, err);
    void *mem;

    if (r < 0)
        return r;
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
    r = WRK_CALL(w, cuMemHostRegister_v2, p->mem, p->size,
                 HOSTREGISTER_PORTABLE | (p->placed ? HOSTREGISTER_DEVICEMAP : 0));
    if (r != CUDA_SUCCESS)
        return r;
    p->ctx = wrk_ctx_current(w);
    p->ctx_index = w->ctx_index;
    if (p->shadow && p->size >= WRK_PINNED_TOLD_MIN)
        wrk_changed_pages_watch(&p->changed, (uintptr_t)p->mem, p->size);
    return CUDA_SUCCESS;
}

static void
pinned_free(struct wrk *w, struct pinned *p)
{
    if (p->ctx)
        WRK_CALL(w, cuMemHostUnregister, p->mem);
    if (p->mem && p->placed)
        wrk_unified_unmap((uintptr_t)p->mem, p->size);
    else if (p->mem)
        munmap(p->mem, p->size);
    if (p->shadow)
        munmap(p->shadow, p->size);
    wrk_changed_pages_end(&p->changed);
    atomic_fetch_sub(&bytes, p->size * (p->shadow ? 2 : 1));
    free(p);
}

/* The memory of a piece: the client's file, or with @fd -1 pages of our own. */
static int
pinned_fill(struct pinned *p, int fd, uint64_t size, uint64_t addr, struct gp_err *err)
{
    void *mem;
    int r;

    if (!addr) {
        r = wrk_pinned_map(fd, size, &mem, err);
        if (r >= 0)
            p->mem = mem;
        return r;
    }
    r = fd < 0 ? 0 : pinned_check(fd, size, err);
    if (r >= 0)
        r = wrk_unified_map(addr, size, fd, err);
    if (r < 0)
        return r;
    p->mem = (uint8_t *)(uintptr_t)addr;
    p->placed = true;
    if (fd >= 0)
        return 0;
    mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED)
        return gp_err_set(err, -errno, "mapping its shadow: %s", strerror(errno));
    p->shadow = mem;
    return 0;
}

static int
pinned_new(struct wrk *w, int fd, uint64_t size, uint64_t addr, struct pinned **ret,
           struct gp_err *err)
{
    struct pinned *p = calloc(1, sizeof(*p));
    int r;

    if (!p)
        return gp_err_set(err, -ENOMEM, "out of memory");
    p->size = size;
    r = pinned_fill(p, fd, size, addr, err);
    atomic_fetch_add(&bytes, size * (p->shadow ? 2 : 1));
    if (r >= 0 && pinned_register(w, p) != CUDA_SUCCESS)
        r = gp_err_set(err, -EIO, "the driver does not register it");
    if (r < 0) {
        pinned_free(w, p);
        return r;
    }
    *ret = p;
    return 0;
}

static bool
pinned_take(struct wrk *w, const struct wrk_pinned_request *request)
{
    CLEANUP_FD int fd = request->file ? xport_take_fd(w->priv->conn) : -1;
    uint64_t room = WRK_PINNED_BYTES_MAX - atomic_load(&bytes);
    uint64_t size = request->size;
    struct gp_err err = {0};
    int r = -EINVAL;

    if (request->file && fd < 0)
        gp_err_set(&err, fd, "no descriptor has come");
    else if (request->id >= WRK_PINNED_MAX || pieces[request->id])
        r = gp_err_set(&err, -EPROTO, "number %u is not free", request->id);
    else if (size == 0 || size > room || (!request->file && size > room / 2))
        r = gp_err_set(&err, -EDQUOT, "the client has enough of it");
    else
        r = pinned_new(w, fd, size, request->addr, &pieces[request->id], &err);
    if (r < 0)
        gp_log_debug("bulk", "memory of the client stays its own: %s",
                     gp_err_msg(&err, r));
    return r >= 0;
}

/* Pages that are there, and whose registration may have ended with its context. */
static bool
pinned_is_there(const struct wrk_pinned_request *request)
{
    const struct pinned *p = request->id < WRK_PINNED_MAX ? pieces[request->id] : NULL;

    return p && p->shadow && !request->file && request->size == p->size &&
           request->addr == (uintptr_t)p->mem;
}

bool
wrk_pinned_add(struct wrk *w, const struct wrk_pinned_request *request)
{
    if (pinned_is_there(request))
        return pinned_register(w, pieces[request->id]) == CUDA_SUCCESS;
    return pinned_take(w, request);
}

/* ---- giving back ------------------------------------------------------------------
 *
 * On a waiter thread unless the card is idle: a driver may wait for all work of the
 * card before it takes a registration back, and that work for frames that the reader
 * has not read.
 */

struct unpin_job {
    struct wrk_job job;
    struct unpin_job *next; /* in behind_captures */
    struct pinned *p;
    /* The context's work: kernels and copies by the address have no marks. */
    struct wrk_parts parts;
};

/* What a stream that is captured had to do before cannot be told, so memory that is
 * given back meanwhile waits for the end of all captures.  Receive thread. */
static struct unpin_job *behind_captures;

/* Until the process ends, and counted until then.  Any thread. */
static void
pinned_keep(struct pinned *p)
{
    static struct pinned *_Atomic kept;

    p->next = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &p->next, p))
        ;
}

static void
unpin_run(struct wrk *w, struct wrk_job *job)
{
    struct unpin_job *unpin = container_of(job, struct unpin_job, job);

    wrk_capture_relax_thread(w, true); /* the client's call was allowed, or is over */
    if (!atomic_load(&w->priv->stopping)) {
        for (unsigned i = 0; i < WRK_PINNED_FENCES; i++)
            wrk_staging_wait(w, &unpin->p->mark[i]);
        if (unpin->parts.events)
            wrk_parts_wait(w, &unpin->parts);
        else if (unpin->p->placed)
            WRK_CALL(w, cuCtxSynchronize);
        pinned_free(w, unpin->p);
    } else {
        wrk_parts_drop(w, &unpin->parts); /* nothing is to point to them */
        pinned_keep(unpin->p);
    }
    free(unpin);
}

static void
unpin_start(struct wrk *w, struct unpin_job *unpin)
{
    struct pinned *p = unpin->p;

    if (p->placed && !wrk_parts_take(w, p->ctx_index, &unpin->parts) &&
        w->priv->capturing) {
        unpin->next = behind_captures;
        behind_captures = unpin;
        return;
    }
    unpin->job.ctx = p->ctx;
    if (wrk_waiters_background(w, &unpin->job))
        return;
    wrk_parts_drop(w, &unpin->parts);
    free(unpin);
    pinned_keep(p);
}

bool
wrk_pinned_pending(const struct wrk *w)
{
    return behind_captures && !w->priv->capturing;
}

void
wrk_pinned_poll(struct wrk *w)
{
    struct unpin_job *unpin = TAKE_PTR(behind_captures);

    while (unpin) {
        struct unpin_job *next = unpin->next;

        if (unpin->p->ctx) {
            unpin_start(w, unpin);
        } else {
            pinned_free(w, unpin->p);
            free(unpin);
        }
        unpin = next;
    }
}

/* Whether the driver unregisters without waiting: no copy uses the memory, no context
 * has work, and no host function waits for the receive thread. */
static bool
pinned_is_idle(struct wrk *w, struct pinned *p)
{
    for (unsigned i = 0; i < WRK_PINNED_FENCES; i++)
        if (!wrk_staging_idle(w, &p->mark[i]))
            return false;
    return !p->for_good && wrk_wait_all_end_alone(w);
}

void
wrk_pinned_drop(struct wrk *w, uint32_t id)
{
    struct pinned *p = id < WRK_PINNED_MAX ? TAKE_PTR(pieces[id]) : NULL;
    struct unpin_job *unpin;

    if (!p)
        return;
    if (p->for_good && !p->placed) {
        pinned_keep(p);
        return;
    }
    /* Freed at once where possible, so that a later kernel that uses the address
     * faults. */
    if (!p->ctx || (p->placed && pinned_is_idle(w, p))) {
        pinned_free(w, p);
        return;
    }
    unpin = calloc(1, sizeof(*unpin));
    if (!unpin) {
        pinned_keep(p);
        return;
    }
    *unpin = (struct unpin_job){.job.run = unpin_run, .p = p};
    unpin_start(w, unpin);
}

/* ---- copies ---- */

static void
pinned_fence(struct wrk *w, struct pinned *p, CUstream stream)
{
    unsigned i = 0;

    while (i < WRK_PINNED_FENCES && !(p->mark[i].event && p->stream[i] == stream &&
                                      p->mark[i].ctx_index == w->ctx_index))
        i++;
    if (i < WRK_PINNED_FENCES) {
        WRK_CALL(w, cuEventRecord, p->mark[i].event, stream);
        return;
    }
    for (i = 0; i < WRK_PINNED_FENCES && !wrk_staging_idle(w, &p->mark[i]); i++)
        ;
    if (i == WRK_PINNED_FENCES) {
        p->for_good = true;
        return;
    }
    p->stream[i] = stream;
    wrk_staging_fence(w, &p->mark[i], w->ctx_index, stream);
}

static CUresult
pinned_move(struct wrk *w, uint8_t *host, CUdeviceptr device, uint64_t n, bool down,
            CUstream stream)
{
    CUresult r = CUDA_SUCCESS;

    for (uint64_t at = 0; at < n && r == CUDA_SUCCESS; at += PIECE) {
        uint64_t len = gp_min(n - at, (uint64_t)PIECE);

        wrk_copy_account_receive(w, len);
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
    pinned_fence(w, p,
                 stream); /* also after an error: pieces before it are under way */
    return r;
}

/* ---- what changes in pages of our own ---- */

static struct wire_lines
pinned_lines(const struct pinned *p)
{
    return (struct wire_lines){
        .mem = p->mem, .shadow = p->shadow, .at = (uintptr_t)p->mem, .size = p->size};
}

/* Lines with many changed bytes come first: a flag that says that other memory is
 * complete is usually the smallest change. */
static bool
is_small(const struct wire_line *line)
{
    return __builtin_popcountll(line->mask) <= 8;
}

bool
wrk_pinned_lines_put(uint32_t id, const struct wire_line *lines, size_t n)
{
    struct pinned *p = id < WRK_PINNED_MAX ? pieces[id] : NULL;
    struct wire_lines l;

    if (!p || !p->shadow)
        return false;
    l = pinned_lines(p);
    for (unsigned small = 0; small < 2; small++)
        for (size_t i = 0; i < n; i++)
            if (is_small(&lines[i]) == small)
                wire_lines_put(&l, &lines[i], false);
    return true;
}

/* The same as wire_lines_take(), where only some pages may have changed; less of *@look
 * is left then. */
static size_t
pinned_lines_take(struct pinned *p, uint64_t *pos, uint64_t *look,
                  struct wire_line *lines, size_t max)
{
    const struct wire_lines l = pinned_lines(p);
    size_t n = 0;

    if (p->changed.bits && *pos == 0)
        wrk_changed_pages_note(&p->changed);
    while (*pos < p->size) {
        uint64_t end = p->size, from;

        if (p->changed.bits)
            end = wrk_changed_pages_next(&p->changed, pos);
        from = *pos;
        n += wire_lines_take(&l, pos, gp_min(*look, end - from), lines + n, max - n);
        if (p->changed.bits)
            wrk_changed_pages_done(&p->changed, from, *pos);
        *look -= *pos - from;
        if (*pos < end)
            break;
    }
    return n;
}

size_t
wrk_pinned_lines_take(uint32_t *id, uint64_t *offset, struct wire_line *lines)
{
    uint64_t look = WRK_PINNED_LOOK;
    size_t n = 0;

    for (; *id < WRK_PINNED_MAX; (*id)++, *offset = 0) {
        struct pinned *p = pieces[*id];

        if (!p || !p->shadow || *offset >= p->size)
            continue;
        n += pinned_lines_take(p, offset, &look, lines + n, WIRE_LINES_MAX - n);
        if (*offset < p->size)
            return n;
    }
    *id = UINT32_MAX;
    return n;
}

void
wrk_pinned_forget(uint32_t ctx_index)
{
    for (uint32_t id = 0; id < WRK_PINNED_MAX; id++) {
        struct pinned *p = pieces[id];

        if (!p)
            continue;
        for (unsigned i = 0; i < WRK_PINNED_FENCES; i++)
            wrk_staging_forget(&p->mark[i], ctx_index);
        if (p->ctx_index == ctx_index)
            p->ctx = NULL;
    }
    for (struct unpin_job *unpin = behind_captures; unpin; unpin = unpin->next) {
        for (unsigned i = 0; i < WRK_PINNED_FENCES; i++)
            wrk_staging_forget(&unpin->p->mark[i], ctx_index);
        if (unpin->p->ctx_index == ctx_index)
            unpin->p->ctx = NULL;
    }
}
