/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device printf and assert, the device heap, grid workspaces.
 *
 * The hooks run on threads that execute a block: they take the lock, and never
 * wait for anything else.  Heap bookkeeping is on the host side only: a kernel
 * that scribbles over its heap hurts nobody else.
 */
#include "sg_output.h"

#include "sg_check.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_mem.h"
#include "sg_va.h"

#include "sg_exec.h"
#include "sg_shadow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Cooperative launches of one context in flight; more wait for an error,
     * not for each other. */
    WORKSPACES = 1024,
    WORKSPACE_SIZE = 64,
    HEAP_ALIGN = 16,
    /* In front of each block, as cards have it: nvcc writes the number of an array's
     * elements there (`new T[n]` of a class with an operator new[] of its own). */
    HEAP_HEAD = 16,
};

struct text {
    char *data;
    size_t len, cap;
};

struct sg_output {
    struct text text[2]; /* stdout, stderr */
    bool printed;
    struct sg_alloc *heap;
    struct sg_va heap_va;
    struct sg_va_extent *blocks; /* taken from the heap, sorted by base */
    size_t n_blocks, cap_blocks;
    struct sg_alloc *workspaces;
    uint64_t free_workspaces[WORKSPACES];
    unsigned n_workspaces;
};

static sg_output_fn hook_fn; /* lock held */
static void *hook_user;

__attribute__((visibility("default"))) void
sg_set_output_hook(sg_output_fn fn, void *user)
{
    sg_lock();
    hook_fn = fn;
    hook_user = user;
    sg_unlock();
}

static int
output_new(struct sg_ctx *ctx, struct sg_output **ret_out)
{
    *ret_out = calloc(1, sizeof(**ret_out));
    return *ret_out ? 0 : -ENOMEM;
}

static void
output_free(struct sg_output *out)
{
    if (!out)
        return;
    free(out->text[0].data);
    free(out->text[1].data);
    sg_va_fini(&out->heap_va);
    free(out->blocks);
    free(out); /* heap and workspaces went with the context's memory */
}

/* The oldest text makes room, as in a card's ring buffer. */
static void
text_append(struct text *t, const char *data, size_t len, size_t limit)
{
    size_t cap;
    char *p;

    if (len > limit) {
        data += len - limit;
        len = limit;
    }
    if (t->len + len > limit) {
        size_t drop = t->len + len - limit;

        memmove(t->data, t->data + drop, t->len - drop);
        t->len -= drop;
    }
    if (t->len + len > t->cap) {
        cap = gp_max(t->cap * 2, t->len + len + 256);
        p = realloc(t->data, cap);
        if (!p)
            return;
        t->data = p;
        t->cap = cap;
    }
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

static void
append(void *user, int which, const char *data, size_t len)
{
    struct sg_ctx *ctx = user;

    sg_lock();
    if (ctx->output) {
        ctx->output->printed = true;
        text_append(&ctx->output->text[which], data, len,
                    gp_max(ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE], (size_t)4096));
    }
    sg_unlock();
}

static void
hook_print(void *user, const char *data, size_t len)
{
    append(user, 0, data, len);
}

static void
hook_assert(void *user, const char *data, size_t len)
{
    append(user, 1, data, len);
}

/* For the user's eyes now, or when the host synchronises with a remote card. */
static void
hook_found(void *user, const struct sg_finding *finding)
{
    char text[SG_CHECK_TEXT];
    size_t len = sg_check_note(finding, text);
    bool remote;

    if (!len)
        return;
    sg_lock();
    remote = hook_fn != NULL;
    sg_unlock();
    if (remote)
        append(user, 1, text, len);
    else
        fwrite(text, 1, len, stderr);
}

void
sg_output_flush(struct sg_ctx *ctx)
{
    uint64_t handle = ctx->handle;

    for (int i = 0; i < 2; i++) {
        struct text t;
        sg_output_fn fn = hook_fn;
        void *user = hook_user;

        if (!ctx->output || !ctx->output->text[i].len)
            continue;
        t = ctx->output->text[i];
        ctx->output->text[i] = (struct text){0};
        sg_unlock();
        if (fn) {
            fn(user, (CUcontext)(uintptr_t)handle, i + 1, t.data, t.len);
        } else {
            FILE *f = i ? stderr : stdout;

            fwrite(t.data, 1, t.len, f);
            fflush(f);
        }
        free(t.data);
        sg_lock();
    }
}

void
sg_output_say(const char *words)
{
    char line[1024];
    sg_output_fn fn;
    void *user;
    int n;

    sg_lock();
    fn = hook_fn;
    user = hook_user;
    sg_unlock();
    n = snprintf(line, sizeof(line), "softgpu: %s\n", words);
    if (fn && n > 0)
        fn(user, NULL, STDERR_FILENO, line, gp_min((size_t)n, sizeof(line) - 1));
}

void
sg_output_tell(struct sg_ctx *ctx, const char *text, size_t len)
{
    sg_output_fn fn;
    void *user;

    sg_lock();
    fn = hook_fn;
    user = hook_user;
    sg_unlock();
    if (fn && ctx)
        fn(user, (CUcontext)(uintptr_t)ctx->handle, STDERR_FILENO, text, len);
    else
        fwrite(text, 1, len, stderr);
}

/* Lock held; dropped while text is written. */
static void
flush_all(void)
{
    struct sg_ctx *ctx = sg_ctx_list;

    while (ctx) {
        struct sg_output *out = ctx->output;

        if (out && (out->text[0].len || out->text[1].len)) {
            sg_output_flush(ctx);
            ctx = sg_ctx_list; /* which may have changed */
        } else {
            ctx = ctx->next;
        }
    }
}

__attribute__((visibility("default"))) int
sg_check_end(char *line, size_t size, uint64_t counts[2])
{
    struct sg_check_counts found;

    if (!sg_check_flags() || !line)
        return sg_check_flags() != 0;
    sg_lock();
    flush_all();
    sg_unlock();
    if (sg_check_flags() & SG_CHECK_LEAKS)
        sg_mem_report_leaks();
    line[sg_check_summary(line, size, &found)] = '\0';
    counts[0] = found.errors;
    counts[1] = found.leaks;
    return 1;
}

bool
sg_output_in_use(const struct sg_output *out, CUlimit limit)
{
    return limit == CU_LIMIT_MALLOC_HEAP_SIZE ? out->heap != NULL : out->printed;
}

/* ----------------------------------------------------------------- device heap */

static int
heap_open(struct sg_ctx *ctx, struct sg_output *out)
{
    uint64_t size = ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE];

    if (out->heap)
        return 0;
    if (!size || sg_mem_new(ctx, size, &out->heap) != CUDA_SUCCESS)
        return -ENOMEM;
    out->heap->internal = true;
    return sg_va_init(&out->heap_va, out->heap->base, size);
}

static size_t
block_upper(const struct sg_output *out, uint64_t addr)
{
    size_t lo = 0, hi = out->n_blocks;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (out->blocks[mid].base <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t
heap_take(struct sg_output *out, uint64_t size)
{
    struct sg_va_extent *p;
    uint64_t addr;
    size_t i, cap;

    if (out->n_blocks == out->cap_blocks) {
        cap = out->cap_blocks ? out->cap_blocks * 2 : 64;
        p = realloc(out->blocks, cap * sizeof(*p));
        if (!p)
            return 0;
        out->blocks = p;
        out->cap_blocks = cap;
    }
    addr = sg_va_take(&out->heap_va, HEAP_HEAD + size, HEAP_ALIGN);
    if (!addr)
        return 0;
    addr += HEAP_HEAD;
    i = block_upper(out, addr);
    memmove(&out->blocks[i + 1], &out->blocks[i],
            (out->n_blocks - i) * sizeof(*out->blocks));
    out->blocks[i] = (struct sg_va_extent){addr, size};
    out->n_blocks++;
    return addr;
}

static uint64_t
hook_heap_alloc(void *user, uint64_t size)
{
    struct sg_ctx *ctx = user;
    uint64_t addr = 0;

    if (!size || size > UINT64_C(1) << 40)
        return 0;
    sg_lock();
    if (ctx->output && heap_open(ctx, ctx->output) == 0)
        addr = heap_take(ctx->output, GP_ALIGN_UP(size, (uint64_t)HEAP_ALIGN));
    if (addr && sg_check_flags() & SG_CHECK_INIT)
        sg_shadow_undefine(addr, size);
    sg_unlock();
    return addr;
}

uint64_t
sg_output_heap_size(const struct sg_ctx *ctx, uint64_t addr)
{
    const struct sg_output *out = ctx->output;
    size_t i = out ? block_upper(out, addr) : 0;

    return i > 0 && out->blocks[i - 1].base == addr ? out->blocks[i - 1].size : 0;
}

void
sg_output_heap_free(struct sg_ctx *ctx, uint64_t addr)
{
    struct sg_output *out = ctx->output;
    size_t i = out ? block_upper(out, addr) : 0;

    if (i > 0 && out->blocks[i - 1].base == addr) { /* anything else is ignored */
        sg_va_give(&out->heap_va, addr - HEAP_HEAD,
                   HEAP_HEAD + out->blocks[i - 1].size);
        memmove(&out->blocks[i - 1], &out->blocks[i],
                (out->n_blocks - i) * sizeof(*out->blocks));
        out->n_blocks--;
    }
}

static void
hook_heap_free(void *user, uint64_t addr)
{
    sg_lock();
    sg_output_heap_free(user, addr);
    sg_unlock();
}

static void (*set_condition)(void *user, uint64_t handle, uint32_t value);

void
sg_output_on_condition(void (*fn)(void *user, uint64_t handle, uint32_t value))
{
    set_condition = fn;
}

void
sg_output_hooks(struct sg_ctx *ctx, struct sg_hooks *ret_hooks)
{
    *ret_hooks = (struct sg_hooks){
        .user = ctx,
        .print = hook_print,
        .assert_failed = hook_assert,
        .heap_alloc = hook_heap_alloc,
        .heap_free = hook_heap_free,
        .set_condition = set_condition,
        .found = hook_found,
    };
}

/* ------------------------------------------------------------------ workspaces */

uint64_t
sg_output_workspace_take(struct sg_ctx *ctx)
{
    struct sg_output *out = ctx->output;
    uint64_t addr;

    if (!out->workspaces) {
        if (sg_mem_new(ctx, WORKSPACES * WORKSPACE_SIZE, &out->workspaces) !=
            CUDA_SUCCESS)
            return 0;
        out->workspaces->internal = true;
        while (out->n_workspaces < WORKSPACES) {
            out->free_workspaces[out->n_workspaces] =
                out->workspaces->base + out->n_workspaces * WORKSPACE_SIZE;
            out->n_workspaces++;
        }
    }
    if (!out->n_workspaces)
        return 0;
    addr = out->free_workspaces[--out->n_workspaces];
    memset((void *)(uintptr_t)addr, 0, WORKSPACE_SIZE);
    return addr;
}

void
sg_output_workspace_give(struct sg_ctx *ctx, uint64_t addr)
{
    if (addr && ctx->output)
        ctx->output->free_workspaces[ctx->output->n_workspaces++] = addr;
}

CUresult
sg_output_begin(struct sg_ctx *ctx)
{
    return output_new(ctx, &ctx->output) < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void
sg_output_end(struct sg_ctx *ctx)
{
    output_free(ctx->output);
    ctx->output = NULL;
}
