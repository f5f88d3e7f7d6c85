/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_managed_pages.h"

#include "gp_base.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_link.h"
#include "stub_managed_range.h"
#include "stub_memory.h"
#include "stub_pinned.h"
#include "stub_registered.h"
#include "stub_unified.h"
#include "stub_written.h"
#include "wire_api.h"
#include "wire_lines.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE UINT64_C(4096)
/* Smaller memory is compared sooner than the kernel is asked. */
#define PAGES_ASKED_MIN (UINT64_C(1) << 20)

static struct stub_range
pages_of(const struct managed_range *range)
{
    uint64_t start = range->pages & ~(PAGE - 1);

    return (struct stub_range){start,
                               GP_ALIGN_UP(range->pages + range->size, PAGE) - start};
}

static uint64_t
pages_ctx(void)
{
    return stub_tls.ctx ? atomic_load(&stub_tls.ctx->unique) : 0;
}

CUresult
managed_pages_join(struct managed_range *range)
{
    struct managed_copy *copy = &range->copy[stub_link_here()->number];
    const struct stub_range where = pages_of(range);
    void *shadow = mmap(NULL, range->size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint32_t number;

    if (shadow == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    number = stub_pinned_place(where.start, where.size);
    if (!number) {
        munmap(shadow, range->size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *copy = (struct managed_copy){.dev = range->pages,
                                  .shadow = shadow,
                                  .number = number,
                                  .ctx_unique = pages_ctx()};
    return CUDA_SUCCESS;
}

CUresult
managed_pages_renew(struct managed_range *range)
{
    struct managed_copy *copy = &range->copy[stub_link_here()->number];
    const struct stub_range where = pages_of(range);

    copy->lapsed = false;
    copy->ctx_unique = pages_ctx();
    return stub_pinned_place_again(copy->number, where.start, where.size)
               ? CUDA_SUCCESS
               : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct wire_lines
pages_lines(const struct managed_range *range, const struct stub_link *link)
{
    return (struct wire_lines){.mem = range->host,
                               .shadow = range->copy[link->number].shadow,
                               .at = range->pages,
                               .size = range->size};
}

static CUresult
lines_send(struct stub_link *link, uint32_t number, const struct wire_line *lines,
           size_t n)
{
    struct wire_gp_lines_up_req head = {.id = number - 1,
                                        .n = (uint32_t)(n * sizeof(*lines))};
    struct wire_gp_lines_up_req_room room;
    struct stub_call c;
    CUresult r = stub_call_begin_on(&c, link, WIRE_CALL_gp_lines_up,
                                    wire_gp_lines_up_req_size(&head));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_gp_lines_up_req_place(&room, c.body);
    memcpy(room.lines, lines, head.n);
    return stub_call_post(&c);
}

/* The next bytes from *@pos on that may not be zeros: *@pos is their start then, and
 * the result their end.  The size: all that is left. */
static uint64_t
pages_next(const struct managed_range *range, uint64_t *pos)
{
    const uint64_t start = (uintptr_t)range->host;
    uint64_t at = start + *pos, n;

    if (!range->fresh || range->size < PAGES_ASKED_MIN)
        return range->size;
    n = stub_written_ever(&at, GP_ALIGN_UP(start + range->size, PAGE));
    if (n == UINT64_MAX)
        return range->size;
    *pos = n ? at - start : range->size;
    return n ? gp_min(at + n - start, range->size) : range->size;
}

static CUresult
pages_send(struct managed_range *range, struct stub_link *link, uint64_t pos,
           uint64_t end)
{
    static struct wire_line lines[WIRE_LINES_MAX]; /* under the lock */
    const struct wire_lines l = pages_lines(range, link);
    CUresult r = CUDA_SUCCESS;
    size_t n;

    while (pos < end && r == CUDA_SUCCESS) {
        n = wire_lines_take(&l, &pos, end - pos, lines, WIRE_LINES_MAX);
        if (n && stub_memory_is_waiting())
            stub_unified_seek(lines, n * sizeof(lines[0]));
        if (n)
            r = lines_send(link, range->copy[link->number].number, lines, n);
    }
    return r;
}

CUresult
managed_pages_send(struct managed_range *range, struct stub_link *link)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t pos = 0, end;

    if (stub_registered_is_gone(range->host, range->size))
        return CUDA_SUCCESS;
    while (pos < range->size && r == CUDA_SUCCESS) {
        end = pages_next(range, &pos);
        r = pages_send(range, link, pos, end);
        pos = end;
    }
    return r;
}

/* A server that names other memory names nothing. */
static void
lines_apply(struct managed_range *ranges, const struct stub_link *link,
            const struct wire_line *lines, size_t n)
{
    const struct managed_range *m = NULL;
    bool gone = false;

    for (size_t i = 0; i < n; i++) {
        const struct wire_line *line = &lines[i];
        const struct managed_range *before = m;

        if (!m || line->at + WIRE_LINE <= m->pages || line->at >= m->pages + m->size)
            for (m = ranges; m; m = m->next)
                if (m->pages && m->copy[link->number].number &&
                    line->at + WIRE_LINE > m->pages && line->at < m->pages + m->size)
                    break;
        if (m && m != before)
            gone = stub_registered_is_gone(m->host, m->size);
        if (m && !gone) {
            const struct wire_lines l = pages_lines(m, link);

            wire_lines_put(&l, line, true);
        }
    }
}

/* One reply, from *@id and *@offset on, which only grow. */
static CUresult
lines_query(struct managed_range *ranges, struct stub_link *link, uint32_t *id,
            uint64_t *offset, bool *ret_some)
{
    static struct wire_line lines[WIRE_LINES_MAX]; /* under the lock */
    struct wire_gp_lines_down_rep_view rep = {0};
    struct stub_call c;
    CUresult r = stub_call_begin_on(&c, link, WIRE_CALL_gp_lines_down,
                                    sizeof(struct wire_gp_lines_down_req));
    size_t n = 0;

    if (r != CUDA_SUCCESS)
        return r;
    *(struct wire_gp_lines_down_req *)c.body =
        (struct wire_gp_lines_down_req){.offset = *offset, .id = *id};
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        (!wire_gp_lines_down_rep_open(&rep, c.reply, c.reply_size, 0) ||
         rep.f->len > sizeof(lines) || rep.f->len % sizeof(lines[0]) ||
         rep.f->next_id < *id ||
         (rep.f->next_id == *id && rep.f->next_offset <= *offset)))
        r = stub_call_bad(WIRE_CALL_gp_lines_down);
    if (r == CUDA_SUCCESS) {
        n = rep.f->len / sizeof(lines[0]);
        if (n)
            memcpy(lines, rep.lines, rep.f->len);
        *id = rep.f->next_id;
        *offset = rep.f->next_offset;
    }
    stub_call_end(&c);
    lines_apply(ranges, link, lines, n);
    *ret_some = *ret_some || n;
    return r;
}

CUresult
managed_pages_receive(struct managed_range *ranges, struct stub_link *link,
                      bool *ret_some)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t offset = 0;
    uint32_t id = 0;
    bool any = false;

    for (const struct managed_range *m = ranges; m && !any; m = m->next)
        any = m->copy[link->number].number != 0;
    while (any && id != UINT32_MAX && r == CUDA_SUCCESS)
        r = lines_query(ranges, link, &id, &offset, ret_some);
    return r;
}
