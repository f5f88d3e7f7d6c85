/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of shared memory, both ways, as runs of bytes (wire_runs.h, wrk_changes.h).
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wire_runs.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_capture.h"
#include "wrk_changes.h"
#include "wrk_digests.h"
#include "wrk_waiters.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

/* ---- up --------------------------------------------------------------------- */

/* Starts the copies.  @len bytes of data belong to the runs that bring some. */
static CUresult
up_start(struct wrk *w, const struct wire_run *runs, size_t n, const uint8_t *data,
         uint64_t len, CUstream stream)
{
    CUresult r = CUDA_SUCCESS;

    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        if ((runs[i].kind == WIRE_RUN_AGREED || runs[i].kind == WIRE_RUN_STALE) &&
            runs[i].len)
            continue;
        if (runs[i].kind != WIRE_RUN_BYTES || !runs[i].len || runs[i].len > len)
            return CUDA_ERROR_INVALID_VALUE;
        r = WRK_CALL(w, cuMemcpyHtoDAsync_v2, runs[i].addr, data, runs[i].len, stream);
        data += runs[i].len;
        len -= runs[i].len;
    }
    return r == CUDA_SUCCESS && len ? CUDA_ERROR_INVALID_VALUE : r;
}

/* Where the driver does not tell, what was agreed on is noted if that is sure: the card
 * makes the digests now, and has nothing else to do. */
static void
up_agreed(struct wrk *w, const struct wire_run *runs, uint32_t n, CUstream stream,
          bool quiet)
{
    if (!wrk_changes_are_told()) {
        if (quiet)
            wrk_digests_note(w, stream, runs, n);
        else
            wrk_digests_drop(runs, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (runs[i].kind == WIRE_RUN_AGREED || quiet)
            wrk_changes_forget(runs[i].addr, runs[i].len);
}

/* The frames behind this one may start work that reads the bytes in any stream, so the
 * copies are waited for here.  They are small, and nothing else is in their stream. */
CUresult
h_gp_runs_up(struct wrk *w, const struct wire_args_gp_runs_up *a, struct wrk_reply *rep)
{
    const struct wire_run *runs = (const void *)a->runs;
    const size_t n = a->n / sizeof(*runs);
    CUresult r = wrk_capturing(w, a->hStream), waited;

    (void)rep;
    if (r == CUDA_SUCCESS && a->n % sizeof(*runs))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    r = up_start(w, runs, n, a->data, a->len, a->hStream);
    if (a->len) {
        waited = WRK_CALL(w, cuStreamSynchronize, a->hStream);
        r = r == CUDA_SUCCESS ? waited : r;
    }
    if (r == CUDA_SUCCESS)
        up_agreed(w, runs, (uint32_t)n, a->hStream, a->quiet != 0);
    return r;
}

/* ---- down ------------------------------------------------------------------- */

struct runs_job {
    struct wrk_job job;
    CUstream stream;
    uint64_t join;
    uint32_t n_ranges;
    bool idle;                    /* no card of the client's works */
    struct wrk_digest_look *look; /* NULL: the driver tells, or nobody does */
    /* The answer so far. */
    uint64_t next;
    uint32_t n_runs, n_data;
    uint32_t first; /* run of the range at hand */
    struct wire_run ranges[WIRE_RUNS_MAX], runs[WIRE_RUNS_MAX];
    uint8_t data[WIRE_RUNS_DATA];
};

static CUresult
answer_add(struct wrk *w, struct runs_job *j, uint64_t addr, uint64_t len,
           uint32_t kind)
{
    struct wire_run *last = j->n_runs > j->first ? &j->runs[j->n_runs - 1] : NULL;

    if (kind == WIRE_RUN_CHANGED && last && last->kind == kind &&
        addr - last->addr <= last->len + j->join) {
        last->len = addr + len - last->addr;
        return CUDA_SUCCESS;
    }
    if (kind == WIRE_RUN_CHANGED && len <= WIRE_RUN_BYTES_MAX &&
        len <= WIRE_RUNS_DATA - j->n_data)
        kind = WIRE_RUN_BYTES;
    j->runs[j->n_runs++] = (struct wire_run){.addr = addr, .len = len, .kind = kind};
    if (kind != WIRE_RUN_BYTES)
        return CUDA_SUCCESS;
    j->n_data += (uint32_t)len;
    return WRK_CALL(w, cuMemcpyDtoHAsync_v2, j->data + j->n_data - len, addr, len,
                    j->stream);
}

/* Runs of one page each are the usual ones, so no more are taken than have room. */
static int
answer_room(const struct runs_job *j)
{
    const uint32_t runs = WIRE_RUNS_MAX - j->n_runs;
    const uint32_t pages = (WIRE_RUNS_DATA - j->n_data) / PAGE;

    return (int)gp_min(runs, pages);
}

static CUresult
answer_changes(struct wrk *w, struct runs_job *j, const struct wrk_change *c, int n)
{
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < n && r == CUDA_SUCCESS;) {
        uint64_t addr = c[i].addr, end = addr + c[i].len;

        while (++i < n && c[i].addr - end < j->join)
            end = c[i].addr + c[i].len;
        r = answer_add(w, j, addr, end - addr, WIRE_RUN_CHANGED);
    }
    return r;
}

/* From now on somebody knows what changes, or may. */
static bool
noted_from_now_on(uint64_t addr, uint64_t len)
{
    return wrk_changes_are_told() ? wrk_changes_forget(addr, len)
                                  : !wrk_digests_are_impossible();
}

/* A range of which nobody has noted changes. */
static CUresult
answer_all(struct wrk *w, struct runs_job *j, uint64_t addr, uint64_t end)
{
    bool noted = noted_from_now_on(addr, end - addr);

    return answer_add(w, j, addr, end - addr,
                      noted ? WIRE_RUN_CHANGED : WIRE_RUN_UNKNOWN);
}

static int
changes_take(struct runs_job *j, uint32_t range, uint64_t *at, uint64_t end,
             struct wrk_change *changes, int room)
{
    return j->look ? wrk_digests_take(j->look, range, at, end, changes, room)
                   : wrk_changes_take(at, end, changes, room);
}

static CUresult
answer_range(struct wrk *w, struct runs_job *j, uint32_t number)
{
    const struct wire_run *range = &j->ranges[number];
    struct wrk_change changes[WIRE_RUNS_DATA / PAGE];
    uint64_t at = range->addr, end;
    CUresult r = CUDA_SUCCESS;

    if (!range->len || !gp_add_ok(at, range->len, &end))
        return CUDA_ERROR_INVALID_VALUE;
    j->first = j->n_runs;
    while (r == CUDA_SUCCESS && at < end) {
        const uint64_t from = at;
        const int room = answer_room(j);
        int n;

        if (room <= 0) {
            j->next = at;
            break;
        }
        n = changes_take(j, number, &at, end, changes, room);
        if (n < 0) {
            at = end;
            r = answer_all(w, j, from, end);
        } else {
            r = answer_changes(w, j, changes, n);
        }
    }
    return r;
}

static CUresult
answer(struct wrk *w, struct runs_job *j)
{
    CUresult r = CUDA_SUCCESS, waited;

    for (uint32_t i = 0; i < j->n_ranges && r == CUDA_SUCCESS && !j->next; i++)
        r = answer_range(w, j, i);
    if (!j->n_data)
        return r;
    waited = WRK_CALL(w, cuStreamSynchronize, j->stream);
    return r == CUDA_SUCCESS ? waited : r;
}

static void
answer_send(struct wrk *w, const struct runs_job *j, CUresult result)
{
    const struct wire_gp_runs_down_rep fixed = {
        .next = j->next,
        .n_runs = (uint32_t)(j->n_runs * sizeof(j->runs[0])),
        .n_data = j->n_data,
    };
    struct wire_gp_runs_down_rep_room room;
    uint32_t size = wire_gp_runs_down_rep_size(&fixed);
    CLEANUP_FREE void *body = result == CUDA_SUCCESS ? calloc(1, size) : NULL;

    if (!body) {
        wrk_reply_whole(w, &j->job.req,
                        result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result,
                        NULL, 0);
        return;
    }
    memcpy(body, &fixed, sizeof(fixed));
    wire_gp_runs_down_rep_place(&room, body);
    if (j->n_runs)
        memcpy(room.runs, j->runs, fixed.n_runs);
    if (j->n_data)
        memcpy(room.data, j->data, j->n_data);
    wrk_reply_whole(w, &j->job.req, CUDA_SUCCESS, body, size);
}

static void
runs_job_run(struct wrk *w, struct wrk_job *job)
{
    struct runs_job *j = container_of(job, struct runs_job, job);
    CUresult r;

    /* One that failed is not kept over the copies, which may come behind its kernel. */
    if (j->look && !wrk_digests_wait(w, j->look))
        wrk_digests_end(w, TAKE_PTR(j->look));
    r = job->ctx ? answer(w, j) : CUDA_ERROR_INVALID_CONTEXT;
    /* The client takes over what is there by the time of the copies, and what lies
     * between changes that are joined. */
    if (!wrk_changes_are_told() && !(j->look && j->idle))
        wrk_digests_drop(j->runs, j->n_runs);
    if (j->look)
        wrk_digests_end(w, j->look);
    answer_send(w, j, r);
    free(j);
}

/* Copies from the card may have to wait for others, so a waiter thread makes them. */
CUresult
h_gp_runs_down(struct wrk *w, const struct wire_args_gp_runs_down *a,
               struct wrk_reply *rep)
{
    struct runs_job *j;
    CUresult r = wrk_capturing(w, a->hStream);

    if (r == CUDA_SUCCESS && (!a->n || a->n % sizeof(j->ranges[0])))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    j = malloc(sizeof(*j));
    if (!j)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(j, 0, offsetof(struct runs_job, ranges));
    j->job.run = runs_job_run;
    j->job.keeps_ctx = true;
    j->stream = a->hStream;
    j->join = a->join;
    j->n_ranges = (uint32_t)(a->n / sizeof(j->ranges[0]));
    memcpy(j->ranges, a->ranges, a->n);
    j->idle = j->ranges[0].kind == WIRE_RUN_IDLE;
    if (!wrk_changes_are_told())
        j->look = wrk_digests_look(w, j->stream, j->ranges, j->n_ranges);
    if (!wrk_waiters_job(w, rep, &j->job)) {
        if (j->look)
            wrk_digests_end(w, j->look);
        free(j);
    }
    return CUDA_SUCCESS;
}
