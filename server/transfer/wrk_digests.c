/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_digests.h"

#include "drv.h"
#include "gp_hash.h"
#include "gp_log.h"
#include "gp_table.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_evpool.h"
#include "wrk_governor.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE UINT64_C(4096)
#define WARPS 4 /* in a block; a page has one */
#define WARP_THREADS 32

/* Contexts with an index above this do without. */
#define CONTEXTS 32
/* In a look: ranges of memory that are one allocation each, and pages (8 GiB). */
#define RECORDS 4096
#define PAGES_MAX (UINT32_C(2) << 20)
#define PAGES_FIRST (UINT32_C(16) << 10)
/* Of all memory that has notes: 64 GiB. */
#define NOTES_MAX (UINT32_C(32) << 10)

/* While the program's kernels work, which it may be behind, nobody waits longer for a
 * look.  Fetching a byte takes about as long as the second one. */
#define WAIT_NS (20 * GP_NS_PER_MS)
#define WAIT_NS_PER_BYTE 1
/* The client does not know of kernels that it launched before it had managed memory. */
#define WAIT_IDLE_NS (10 * GP_NS_PER_S)
/* The receive thread waits for no longer than sending takes at 16 GB/s. */
#define NOTE_NS (200 * GP_NS_PER_US)
#define NOTE_BYTES_PER_NS 16
/* A kernel that has begun ends soon. */
#define HOLD_NS (2 * GP_NS_PER_S)
#define SPIN_NS (50 * GP_NS_PER_US)
#define SLEEP_NS (20 * GP_NS_PER_US)

#define HOSTREGISTER_PORTABLE 0x1u
#define HOSTREGISTER_DEVICEMAP 0x2u

extern const char wrk_digests_ptx[];
__asm__(".pushsection .rodata\n"
        "wrk_digests_ptx:\n"
        ".incbin \"wrk_digests.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");

/* As wrk_digests.ptx reads it: bytes from @addr to @end of one allocation, whose pages
 * are numbered from @first on. */
struct record {
    uint64_t addr, end;
    uint32_t first, zero;
    uint64_t zeros;
};
static_assert(sizeof(struct record) == 32, "layout in wrk_digests.ptx");

/* What the kernel of a context reads and writes: memory of ours, which outlives the
 * context that it is registered in.  Kernels of the program can write to it as well, so
 * nothing is read here but digests, and those are only compared, and @begun. */
struct buffer {
    atomic_uint begun, given_up; /* as wrk_digests.ptx has them */
    uint64_t zeros[3];
    struct record record[RECORDS];
    uint64_t digest[];
};
static_assert(offsetof(struct buffer, record) == 32, "layout in wrk_digests.ptx");

struct per_ctx {
    CUfunction kernel; /* NULL: nothing of this is the context's (any more) */
    CUdeviceptr card;  /* address of the buffer there */
    struct buffer *buffer;
    uint32_t n_pages; /* that it has room for */
    bool registered;  /* it is, in the context that there is now */
    CUevent event;    /* of a launch that nobody waits for any more; NULL: none */
    bool reads;       /* that launch still reads memory of the program */
};

struct wrk_digest_look {
    struct per_ctx *ctx;
    bool idle; /* nothing works, so what is found stays as it is */
    uint32_t ctx_index;
    uint32_t n_records, n_pages;
    struct record record[RECORDS];
    CUevent event;
    uint32_t first[WIRE_RUNS_MAX + 1]; /* of each range: its first record */
    uint32_t at;                       /* record that the last take() ended in */
};

/* ---- notes ---------------------------------------------------------------------- */

/* Those of 2 MiB of addresses. */
#define CHUNK_PAGES 512
#define CHUNK_BYTES (CHUNK_PAGES * PAGE)

struct chunk {
    uint64_t number;
    uint64_t digest[CHUNK_PAGES]; /* 0: no note */
};

GP_TABLE_TYPE(chunks, struct chunk *);

static inline bool
chunks_used(struct chunk *const *e)
{
    return *e != NULL;
}

static inline uint32_t
chunks_hash(uint64_t number)
{
    return (uint32_t)gp_hash_u64(number);
}

static inline uint32_t
chunks_hash_of(struct chunk *const *e)
{
    return chunks_hash((*e)->number);
}

static inline bool
chunks_is(struct chunk *const *e, uint64_t number)
{
    return (*e)->number == number;
}

GP_TABLE(chunks, struct chunk *, uint64_t)

/* One process is one attachment, so all of it is the process's.  Contexts and the look
 * belong to who has set @busy. */
static pthread_mutex_t notes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct chunks notes;
static struct per_ctx contexts[CONTEXTS];
static struct wrk_digest_look the_look;
static atomic_bool busy, impossible;
static atomic_uint holders; /* threads that wait for @busy, though for no kernel */

/* NULL: there is no room for another one. */
static uint64_t *
note_of(uint64_t addr)
{
    const uint64_t page = addr / PAGE, number = page / CHUNK_PAGES;
    struct chunk **at = chunks_find(&notes, number);

    if (!at) {
        struct chunk *chunk =
            notes.count < NOTES_MAX ? calloc(1, sizeof(*chunk)) : NULL;

        at = chunk ? chunks_enter(&notes, number) : NULL;
        if (!at) {
            free(chunk);
            return NULL;
        }
        chunk->number = number;
        *at = chunk;
    }
    return &(*at)->digest[page % CHUNK_PAGES];
}

/* ---- what a context needs ------------------------------------------------------- */

bool
wrk_digests_are_impossible(void)
{
    return atomic_load_explicit(&impossible, memory_order_relaxed);
}

static bool
give_up(const char *what)
{
    if (!atomic_exchange(&impossible, true))
        gp_log_info("copy", "changes of managed memory cannot be told from digests: %s",
                    what);
    return false;
}

/* The same, unless there is no memory, or the context has failed: of that nothing
 * follows for another time. */
static bool
give_up_with(CUresult r, const char *what)
{
    bool for_good = (r >= CUDA_ERROR_INVALID_IMAGE && r < 300) ||
                    r == CUDA_ERROR_NOT_FOUND || r == CUDA_ERROR_NOT_SUPPORTED ||
                    r == CUDA_ERROR_INVALID_VALUE;

    return for_good && give_up(what);
}

static size_t
buffer_bytes(uint32_t n_pages)
{
    return sizeof(struct buffer) + n_pages * sizeof(uint64_t);
}

/* Its memory goes with the process, or when a larger one is needed. */
static bool
buffer_make(struct wrk *w, struct per_ctx *ctx, uint32_t n_pages)
{
    const size_t bytes = buffer_bytes(n_pages);
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CUresult r;

    if (mem == MAP_FAILED)
        return false;
    r = WRK_CALL(w, cuMemHostRegister_v2, mem, bytes,
                 HOSTREGISTER_PORTABLE | HOSTREGISTER_DEVICEMAP);
    if (r != CUDA_SUCCESS) {
        munmap(mem, bytes);
        return give_up_with(r, "the driver registers no memory for it");
    }
    r = WRK_CALL(w, cuMemHostGetDevicePointer_v2, &ctx->card, mem, 0);
    if (r != CUDA_SUCCESS) {
        WRK_CALL(w, cuMemHostUnregister, mem);
        munmap(mem, bytes);
        return give_up_with(r, "the card does not reach memory of the host");
    }
    ctx->buffer = mem;
    ctx->n_pages = n_pages;
    ctx->registered = true;
    return true;
}

static bool
buffer_grow(struct wrk *w, struct per_ctx *ctx, uint32_t n_pages)
{
    uint32_t room = gp_max(ctx->n_pages, PAGES_FIRST);

    while (room < n_pages)
        room *= 2;
    if (ctx->registered)
        WRK_CALL(w, cuMemHostUnregister, ctx->buffer);
    if (ctx->buffer)
        munmap(ctx->buffer, buffer_bytes(ctx->n_pages));
    ctx->buffer = NULL;
    ctx->n_pages = 0;
    ctx->registered = false;
    return buffer_make(w, ctx, room);
}

static bool
ctx_make(struct wrk *w, struct per_ctx *ctx)
{
    CUmodule module;
    CUresult r = WRK_CALL(w, cuModuleLoadData, &module, wrk_digests_ptx);

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuModuleGetFunction, &ctx->kernel, module, "gp_digests");
    if (r == CUDA_SUCCESS)
        return true;
    ctx->kernel = NULL;
    return give_up_with(r, "the driver does not take the kernel for it");
}

/* Of the current context, with nothing under way. */
static struct per_ctx *
ctx_ready(struct wrk *w)
{
    struct per_ctx *ctx = w->ctx_index < CONTEXTS ? &contexts[w->ctx_index] : NULL;

    if (!ctx || (!ctx->kernel && !ctx_make(w, ctx)))
        return NULL;
    if (!ctx->event)
        return ctx;
    if (WRK_CALL(w, cuEventQuery, ctx->event) == CUDA_ERROR_NOT_READY)
        return NULL;
    wrk_evpool_put(w, w->ctx_index, ctx->event);
    ctx->event = NULL;
    return ctx;
}

/* ---- a look --------------------------------------------------------------------- */

/* Add what of [@addr, @end) is in the allocation that has @addr; where that ends.  0:
 * there is none, or no room. */
static uint64_t
record_add(struct wrk *w, struct wrk_digest_look *look, uint64_t addr, uint64_t end)
{
    CUdeviceptr start = 0;
    size_t size = 0;
    struct record r;
    uint64_t n;

    if (look->n_records == RECORDS ||
        WRK_CALL(w, cuMemGetAddressRange_v2, &start, &size, addr) != CUDA_SUCCESS ||
        addr - start >= size)
        return 0;
    r = (struct record){.addr = gp_max(start, addr & ~(PAGE - 1)),
                        .end = gp_min(start + size, (end + PAGE - 1) & ~(PAGE - 1)),
                        .first = look->n_pages};
    n = (r.end - 1) / PAGE - r.addr / PAGE + 1;
    if (n > PAGES_MAX - look->n_pages)
        return 0;
    look->record[look->n_records++] = r;
    look->n_pages += (uint32_t)n;
    return start + size;
}

/* The records of all ranges, as far as there are any: what has none may have changed.
 */
static void
records_fill(struct wrk *w, struct wrk_digest_look *look, const struct wire_run *ranges,
             uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = ranges[i].addr, end;

        look->first[i] = look->n_records;
        if (!gp_add_ok(at, ranges[i].len, &end) || end > UINT64_MAX - PAGE)
            continue;
        while (at && at < end)
            at = record_add(w, look, at, end);
    }
    look->first[n] = look->n_records;
}

static CUresult
look_launch(struct wrk *w, const struct wrk_digest_look *look, CUstream stream)
{
    struct per_ctx *ctx = look->ctx;
    CUdeviceptr records = ctx->card + offsetof(struct buffer, record);
    CUdeviceptr digests = ctx->card + offsetof(struct buffer, digest);
    uint32_t n_records = look->n_records, n_pages = look->n_pages;
    void *params[] = {&records, &n_records, &digests, &n_pages};
    unsigned grid[3] = {(n_pages + WARPS - 1) / WARPS, 1, 1};
    unsigned block[3] = {WARPS * WARP_THREADS, 1, 1};
    struct wrk_charge charge;
    CUresult r;

    wrk_governor_acquire(w, stream, wrk_governor_key(ctx->kernel, grid, block),
                         &charge);
    r = WRK_CALL(w, cuLaunchKernel, ctx->kernel, grid[0], 1, 1, block[0], 1, 1, 0,
                 stream, params, NULL);
    wrk_governor_launched(w, &charge);
    return r;
}

/* Launch it, with an event behind it. */
static bool
look_start(struct wrk *w, struct wrk_digest_look *look, CUstream stream)
{
    struct per_ctx *ctx = look->ctx;

    if (!look->n_pages)
        return false;
    atomic_store(&ctx->buffer->begun, 0);
    atomic_store(&ctx->buffer->given_up, 0);
    memset(ctx->buffer->digest, 0, look->n_pages * sizeof(ctx->buffer->digest[0]));
    look->event = wrk_evpool_get(w, look->ctx_index);
    if (!look->event)
        return false;
    if (look_launch(w, look, stream) == CUDA_SUCCESS &&
        WRK_CALL(w, cuEventRecord, look->event, stream) == CUDA_SUCCESS)
        return true;
    wrk_evpool_put(w, look->ctx_index, look->event);
    look->event = NULL;
    return false;
}

static bool
look_prepare(struct wrk *w, struct wrk_digest_look *look, CUstream stream,
             const struct wire_run *ranges, uint32_t n)
{
    look->ctx = n <= WIRE_RUNS_MAX ? ctx_ready(w) : NULL;
    if (!look->ctx)
        return false;
    look->ctx_index = w->ctx_index;
    look->idle = n && ranges[0].kind == WIRE_RUN_IDLE;
    records_fill(w, look, ranges, n);
    if ((look->n_pages > look->ctx->n_pages || !look->ctx->registered) &&
        !buffer_grow(w, look->ctx, look->n_pages))
        return false;
    memcpy(look->ctx->buffer->record, look->record,
           look->n_records * sizeof(look->record[0]));
    return look_start(w, look, stream);
}

struct wrk_digest_look *
wrk_digests_look(struct wrk *w, CUstream stream, const struct wire_run *ranges,
                 uint32_t n)
{
    struct wrk_digest_look *look = &the_look;

    if (wrk_digests_are_impossible() || atomic_exchange(&busy, true))
        return NULL;
    look->n_records = look->n_pages = look->at = 0;
    look->event = NULL;
    if (look_prepare(w, look, stream, ranges, n))
        return look;
    atomic_store(&busy, false);
    return NULL;
}

static bool
look_is_whole(const struct wrk_digest_look *look)
{
    const uint64_t *digest = look->ctx->buffer->digest;

    for (uint32_t i = 0; i < look->n_pages; i++)
        if (!digest[i])
            return false;
    return true;
}

/* Its buffer is in use until its event; the program's memory no more, if it has not
 * begun. */
static void
look_give_up(struct wrk_digest_look *look)
{
    struct per_ctx *ctx = look->ctx;

    atomic_store(&ctx->buffer->given_up, 1);
    ctx->reads = atomic_load(&ctx->buffer->begun);
    ctx->event = look->event;
    look->event = NULL;
}

static bool
is_in_the_way(const struct wrk_digest_look *look)
{
    return unlikely(atomic_load(&holders)) && !atomic_load(&look->ctx->buffer->begun);
}

/* CUDA_ERROR_NOT_READY: it has not passed within @most_ns. */
static CUresult
event_wait(struct wrk *w, const struct wrk_digest_look *look, CUevent event,
           uint64_t most_ns, uint64_t *ret_took)
{
    const uint64_t begun = gp_now_ns();
    const struct timespec pause = {.tv_nsec = SLEEP_NS};
    CUresult r;

    *ret_took = 0;
    while ((r = WRK_CALL(w, cuEventQuery, event)) == CUDA_ERROR_NOT_READY &&
           *ret_took < most_ns && !(look && is_in_the_way(look))) {
        if (*ret_took > SPIN_NS)
            nanosleep(&pause, NULL);
        *ret_took = gp_now_ns() - begun;
    }
    return r;
}

static bool
look_wait(struct wrk *w, struct wrk_digest_look *look, uint64_t most_ns)
{
    uint64_t took;
    CUresult r = event_wait(w, look, look->event, most_ns, &took);

    gp_log_debug("copy", "digests of %" PRIu32 " pages: result %d after %" PRIu64 " us",
                 look->n_pages, (int)r, took / GP_NS_PER_US);
    if (r == CUDA_ERROR_NOT_READY)
        look_give_up(look);
    if (r != CUDA_SUCCESS)
        return false;
    return look_is_whole(look) || give_up("the card does not compute");
}

bool
wrk_digests_wait(struct wrk *w, struct wrk_digest_look *look)
{
    return look_wait(w, look,
                     look->idle ? WAIT_IDLE_NS
                                : WAIT_NS + look->n_pages * PAGE * WAIT_NS_PER_BYTE);
}

void
wrk_digests_end(struct wrk *w, struct wrk_digest_look *look)
{
    if (look->event)
        wrk_evpool_put(w, look->ctx_index, look->event);
    atomic_store(&busy, false);
}

/* ---- memory that goes ----------------------------------------------------------- */

static bool
left_reads(void)
{
    for (unsigned i = 0; i < CONTEXTS; i++)
        if (contexts[i].event && contexts[i].reads)
            return true;
    return false;
}

static void
left_wait(struct wrk *w)
{
    uint64_t took;

    for (unsigned i = 0; i < CONTEXTS; i++)
        if (contexts[i].event && contexts[i].reads &&
            event_wait(w, NULL, contexts[i].event, HOLD_NS, &took) !=
                CUDA_ERROR_NOT_READY)
            contexts[i].reads = false;
}

static void
busy_take(void)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};

    atomic_fetch_add(&holders, 1);
    while (atomic_exchange(&busy, true))
        nanosleep(&pause, NULL);
    atomic_fetch_sub(&holders, 1);
}

bool
wrk_digests_hold(struct wrk *w, bool may_wait)
{
    if (may_wait) {
        busy_take();
        left_wait(w);
        return true;
    }
    if (atomic_exchange(&busy, true))
        return false;
    if (!left_reads())
        return true;
    wrk_digests_let_go();
    return false;
}

void
wrk_digests_let_go(void)
{
    atomic_store(&busy, false);
}

/* ---- what it has found ---------------------------------------------------------- */

/* The record of @addr, from the last one on; NULL: the look left it out. */
static const struct record *
record_at(struct wrk_digest_look *look, uint32_t range, uint64_t addr)
{
    const struct record *record = look->record;

    if (look->at < look->first[range])
        look->at = look->first[range];
    while (look->at < look->first[range + 1] && record[look->at].end <= addr)
        look->at++;
    return look->at < look->first[range + 1] && record[look->at].addr <= addr
               ? &record[look->at]
               : NULL;
}

static int
take(struct wrk_digest_look *look, uint32_t range, uint64_t *addr, uint64_t end,
     struct wrk_change *changes, int max)
{
    int n = 0;

    while (*addr < end) {
        const struct record *r = record_at(look, range, *addr);
        uint64_t part, digest, *note;

        if (!r)
            return n ? n : -1;
        part = gp_min(gp_min(r->end, end), (*addr & ~(PAGE - 1)) + PAGE);
        digest = look->ctx->buffer->digest[r->first + *addr / PAGE - r->addr / PAGE];
        note = note_of(*addr);
        if (!note || *note != digest) {
            if (n && changes[n - 1].addr + changes[n - 1].len == *addr)
                changes[n - 1].len += part - *addr;
            else if (n == max)
                return n;
            else
                changes[n++] = (struct wrk_change){*addr, part - *addr};
            if (note)
                *note = look->idle ? digest : 0;
        }
        *addr = part;
    }
    return n;
}

int
wrk_digests_take(struct wrk_digest_look *look, uint32_t range, uint64_t *addr,
                 uint64_t end, struct wrk_change *changes, int max)
{
    int n;

    pthread_mutex_lock(&notes_lock);
    n = take(look, range, addr, end, changes, max);
    pthread_mutex_unlock(&notes_lock);
    return n;
}

/* The notes of [@addr, @end) that are in @chunk. */
static void
chunk_drop(struct chunk *chunk, uint64_t addr, uint64_t end)
{
    const uint64_t start = chunk->number * CHUNK_BYTES;
    const uint64_t from = gp_max(addr, start), to = gp_min(end, start + CHUNK_BYTES);

    for (uint64_t page = from / PAGE; page * PAGE < to; page++)
        chunk->digest[page % CHUNK_PAGES] = 0;
}

/* A client names any range that it likes, so no more chunks are looked for than there
 * are places in the table. */
static void
range_drop(uint64_t addr, uint64_t end)
{
    const uint64_t first = addr / CHUNK_BYTES, last = (end - 1) / CHUNK_BYTES;
    struct chunk **at;

    if (last - first < notes.cap) {
        for (uint64_t number = first; number <= last; number++) {
            at = chunks_find(&notes, number);
            if (at)
                chunk_drop(*at, addr, end);
        }
        return;
    }
    for (uint32_t i = 0; i < notes.cap; i++) {
        at = &notes.slots[i];
        if (*at && (*at)->number >= first && (*at)->number <= last)
            chunk_drop(*at, addr, end);
    }
}

void
wrk_digests_drop(const struct wire_run *runs, uint32_t n)
{
    uint64_t end;

    pthread_mutex_lock(&notes_lock);
    for (uint32_t i = 0; i < n && notes.count; i++)
        if (runs[i].len && gp_add_ok(runs[i].addr, runs[i].len, &end))
            range_drop(runs[i].addr, end);
    pthread_mutex_unlock(&notes_lock);
}

static void
look_note(const struct wrk_digest_look *look)
{
    const uint64_t *digest = look->ctx->buffer->digest;

    pthread_mutex_lock(&notes_lock);
    for (uint32_t i = 0; i < look->n_records; i++) {
        const struct record *r = &look->record[i];

        for (uint64_t page = r->addr / PAGE; page * PAGE < r->end; page++) {
            uint64_t *note = note_of(page * PAGE);

            if (note)
                *note = digest[r->first + page - r->addr / PAGE];
        }
    }
    pthread_mutex_unlock(&notes_lock);
}

void
wrk_digests_note(struct wrk *w, CUstream stream, const struct wire_run *runs,
                 uint32_t n)
{
    struct wrk_digest_look *look;

    wrk_digests_drop(runs, n); /* of those pages that the look leaves out */
    look = wrk_digests_look(w, stream, runs, n);
    if (!look)
        return;
    if (look_wait(w, look, NOTE_NS + look->n_pages * PAGE / NOTE_BYTES_PER_NS))
        look_note(look);
    wrk_digests_end(w, look);
}

void
wrk_digests_forget(uint32_t ctx_index)
{
    struct per_ctx *ctx = ctx_index < CONTEXTS ? &contexts[ctx_index] : NULL;

    if (!ctx)
        return;
    ctx->kernel = NULL;
    ctx->event = NULL;
    ctx->reads = false;
    ctx->registered = false;
}
