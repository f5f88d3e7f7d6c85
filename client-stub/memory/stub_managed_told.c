/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_managed_told.h"

#include "gp_base.h"
#include "stub_call.h"
#include "stub_link.h"
#include "stub_managed_range.h"
#include "stub_managed_runs.h"
#include "wire_api.h"
#include "wire_runs.h"

#include <string.h>

/* When there are more changes than one answer has room for, those with gaps of less
 * than this between them are fetched as one: the bytes of the gap cost less than
 * another round trip. */
#define TOLD_JOIN (UINT64_C(64) << 10)

static struct {
    uint32_t n, n_data;
    struct wire_run runs[WIRE_RUNS_MAX];
    uint8_t data[WIRE_RUNS_DATA];
} reply; /* under the lock */

/* Where in the list of ranges the next question begins. */
struct place {
    struct managed_range *range;
    uint64_t at;
};

static struct managed_copy *
copy_here(struct managed_range *range)
{
    return &range->copy[stub_link_here()->number];
}

static uint32_t
question_fill(struct place from, bool (*is_asked)(const struct managed_range *range),
              uint32_t kind, struct wire_run *ranges, struct place *ret_end)
{
    struct managed_range *m = from.range;
    uint32_t n = 0;

    for (; m && n < WIRE_RUNS_MAX; m = m->next, from.at = 0)
        if (is_asked(m))
            ranges[n++] = (struct wire_run){.addr = copy_here(m)->dev + from.at,
                                            .len = m->size - from.at,
                                            .kind = kind};
    *ret_end = (struct place){m, 0};
    return n;
}

static CUresult
question_begin(struct stub_call *c, CUstream stream, uint64_t join,
               const struct wire_run *ranges, uint32_t n)
{
    const struct wire_gp_runs_down_req head = {.hStream = (uintptr_t)stream,
                                               .join = join,
                                               .n = (uint32_t)(n * sizeof(*ranges))};
    struct wire_gp_runs_down_req_room room;
    CUresult r =
        stub_call_begin(c, WIRE_CALL_gp_runs_down, wire_gp_runs_down_req_size(&head));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c->body, &head, sizeof(head));
    wire_gp_runs_down_req_place(&room, c->body);
    memcpy(room.ranges, ranges, head.n);
    return CUDA_SUCCESS;
}

/* Check the answer and copy its runs and bytes into @reply, because applying it sends
 * other calls, which reuse the connection's buffer. */
static CUresult
answer_read(const struct stub_call *c, uint64_t *ret_next)
{
    struct wire_gp_runs_down_rep_view rep = {0};

    if (!wire_gp_runs_down_rep_open(&rep, c->reply, c->reply_size, 0) ||
        rep.f->n_runs > sizeof(reply.runs) || rep.f->n_runs % sizeof(reply.runs[0]) ||
        rep.f->n_data > sizeof(reply.data))
        return stub_call_bad(WIRE_CALL_gp_runs_down);
    reply.n = (uint32_t)(rep.f->n_runs / sizeof(reply.runs[0]));
    reply.n_data = rep.f->n_data;
    if (reply.n)
        memcpy(reply.runs, rep.runs, rep.f->n_runs);
    if (reply.n_data)
        memcpy(reply.data, rep.data, rep.f->n_data);
    *ret_next = rep.f->next;
    return CUDA_SUCCESS;
}

/* The range that holds all of [dev, dev + n); they come in the order of the list. */
static struct managed_range *
range_of(struct managed_range *from, uint64_t dev, uint64_t n)
{
    while (from && (!copy_here(from)->dev || dev - copy_here(from)->dev >= from->size))
        from = from->next;
    return from && n <= from->size - (dev - copy_here(from)->dev) ? from : NULL;
}

static CUresult
answer_apply(struct managed_range *from, CUstream stream)
{
    CUresult r = CUDA_SUCCESS;
    uint32_t used = 0, n = reply.n;

    reply.n = 0;
    for (uint32_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        const struct wire_run run = reply.runs[i];
        uint64_t at;

        from = range_of(from, run.addr, run.len);
        if (!from || !run.len ||
            (run.kind == WIRE_RUN_BYTES && run.len > reply.n_data - used))
            return stub_call_bad(WIRE_CALL_gp_runs_down);
        at = run.addr - copy_here(from)->dev;
        if (run.kind == WIRE_RUN_BYTES) {
            managed_range_take(from, at, reply.data + used, run.len);
            used += (uint32_t)run.len;
        } else {
            copy_here(from)->untold |= run.kind == WIRE_RUN_UNKNOWN;
            r = managed_range_fetch(from, at, run.len, stream);
        }
    }
    return r;
}

CUresult
managed_told_receive(struct managed_range *ranges,
                     bool (*is_asked)(const struct managed_range *range),
                     CUstream stream, bool idle)
{
    const uint32_t kind = idle ? WIRE_RUN_IDLE : WIRE_RUN_RANGE;
    static struct wire_run asked[WIRE_RUNS_MAX]; /* under the lock */
    struct place from = {ranges, 0}, end;
    CUresult r = CUDA_SUCCESS;
    uint64_t join = 0, next = 0;
    uint32_t n;

    while (r == CUDA_SUCCESS &&
           (n = question_fill(from, is_asked, kind, asked, &end))) {
        struct stub_call c;

        r = question_begin(&c, stream, join, asked, n);
        if (r != CUDA_SUCCESS)
            break;
        r = stub_call_wait(&c);
        if (r == CUDA_SUCCESS)
            r = answer_read(&c, &next);
        stub_call_end(&c);
        if (r == CUDA_SUCCESS)
            r = answer_apply(from.range, stream);
        if (r == CUDA_SUCCESS && next) {
            end.range = range_of(from.range, next, 1);
            if (!end.range || (end.range == from.range &&
                               next - copy_here(end.range)->dev <= from.at))
                return stub_call_bad(WIRE_CALL_gp_runs_down);
            end.at = next - copy_here(end.range)->dev;
            join = TOLD_JOIN;
        }
        from = end;
    }
    return r;
}

CUresult
managed_told_stale(struct managed_range *ranges,
                   bool (*is_meant)(const struct managed_range *range), CUstream stream)
{
    CUresult r = CUDA_SUCCESS;

    managed_runs_open(stream, false);
    for (struct managed_range *m = ranges; m && r == CUDA_SUCCESS; m = m->next)
        if (is_meant(m))
            r = managed_runs_stale(copy_here(m)->dev, m->size);
    return r == CUDA_SUCCESS ? managed_runs_close() : r;
}
