/* SPDX-License-Identifier: Apache-2.0 */
/* Context objects and the per-thread stack. */
#include "stub_ctx.h"

#include "stub_call.h"
#include "stub_device.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "wire_format.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define STACK_FIRST 4   /* entries of a thread's first stack; most use one */
#define STACK_MAX 65536 /* a program that pushes in a loop without popping */

__thread struct stub_tls stub_tls = {.link = stub_links};

static struct stub_ctx primaries[STUB_DEVICES_MAX];
static _Atomic uint64_t next_unique = 1;

/* Memory of contexts that are gone. */
static struct {
    struct gp_lock lock;
    struct stub_ctx *first;
} unused;

void
stub_ctx_ref(struct stub_ctx *ctx)
{
    atomic_fetch_add_explicit(&ctx->refs, 1, memory_order_relaxed);
}

void
stub_ctx_unref(struct stub_ctx *ctx)
{
    if (atomic_fetch_sub_explicit(&ctx->refs, 1, memory_order_acq_rel) != 1)
        return;
    stub_ctx_storage_free(&ctx->storage);
    gp_lock_take(&unused.lock);
    ctx->next_unused = unused.first;
    unused.first = ctx;
    gp_lock_release(&unused.lock);
}

/* False: nobody has it any more. */
static bool
ctx_ref_used(struct stub_ctx *ctx)
{
    uint32_t refs = atomic_load(&ctx->refs);

    while (refs)
        if (atomic_compare_exchange_weak(&ctx->refs, &refs, refs + 1))
            return true;
    return false;
}

static struct stub_ctx *
ctx_alloc(void)
{
    struct stub_ctx *ctx;

    gp_lock_take(&unused.lock);
    ctx = unused.first;
    if (ctx)
        unused.first = ctx->next_unused;
    gp_lock_release(&unused.lock);
    if (ctx)
        memset(ctx, 0, sizeof(*ctx));
    return ctx ? ctx : calloc(1, sizeof(*ctx));
}

static void
ctx_setup(struct stub_ctx *ctx, uint64_t handle, CUdevice dev)
{
    ctx->handle = handle;
    ctx->index = wire_handle_index(handle);
    ctx->dev = dev;
    ctx->refs = 1;
    atomic_store(&ctx->unique, atomic_fetch_add(&next_unique, 1));
    stub_handle_set_data(WIRE_KIND_CTX, handle, ctx);
}

/* Stands for "no context" where calls of a thread go to a certain server. */
static struct stub_ctx nowhere[STUB_LINKS_MAX];

static void
ctx_nowhere_init(void)
{
    for (uint32_t i = 0; i < STUB_LINKS_MAX; i++) {
        nowhere[i].handle = i;
        nowhere[i].refs = 1; /* never freed */
    }
}

/* Indices of primary contexts follow the servers' ordinals, so those of devices hidden
 * by CUDA_VISIBLE_DEVICES stay unused. */
int
stub_ctx_init(void)
{
    struct stub_device d;

    ctx_nowhere_init();
    for (uint32_t nth = 0; stub_device_nth(nth, &d); nth++) {
        uint64_t handle = stub_handle_new_at(WIRE_KIND_CTX, d.link->number, 1 + nth);

        if (!handle)
            return -ENOMEM;
        for (uint32_t dev = 0; dev < stub_device_count; dev++)
            if (stub_devices[dev].info == d.info) {
                primaries[dev].primary = true;
                ctx_setup(&primaries[dev], handle, (CUdevice)dev);
            }
    }
    return 0;
}

struct ctx_search {
    uint32_t link;
    uint32_t index; /* the one to be preferred */
    struct stub_ctx *found;
    uint32_t found_index;
};

static bool
ctx_is_primary(const struct stub_ctx *ctx)
{
    return ctx >= primaries && ctx < primaries + STUB_DEVICES_MAX;
}

/* Another thread may end @data and make another context of its memory meanwhile, so
 * that only its atomic fields are read. */
static void
ctx_if_better(uint64_t handle, void *data, void *user)
{
    uint32_t index = wire_handle_index(handle);
    struct stub_ctx *ctx = data;
    struct ctx_search *search = user;

    if (!ctx || wire_handle_link(handle) != search->link || !atomic_load(&ctx->alive))
        return;
    if (index == search->index || !search->found ||
        (ctx_is_primary(ctx) && search->found_index != search->index)) {
        search->found = ctx;
        search->found_index = index;
    }
}

struct stub_ctx *
stub_ctx_on(uint32_t link, uint32_t index)
{
    struct ctx_search search = {.link = link, .index = index};

    stub_handle_each(WIRE_KIND_CTX, ctx_if_better, &search);
    return search.found ? search.found : &nowhere[link];
}

struct stub_ctx *
stub_ctx_primary(CUdevice dev)
{
    return stub_device_get(dev) ? &primaries[dev] : NULL;
}

struct stub_ctx *
stub_ctx_new(CUdevice dev, unsigned int flags)
{
    struct stub_ctx *ctx = ctx_alloc();
    uint64_t handle =
        ctx ? stub_handle_new_on(stub_devices[dev].link->number, WIRE_KIND_CTX) : 0;

    if (!handle) {
        free(ctx);
        return NULL;
    }
    ctx->flags = flags;
    ctx->alive = true;
    ctx_setup(ctx, handle, dev);
    return ctx;
}

/* ---- those made from green contexts ---- */

/* Few programs have any.  Their handles are the server's, which our tables do not hold.
 */
static struct {
    struct gp_lock lock;
    struct stub_ctx *first;
} greens;

struct stub_ctx *
stub_ctx_new_green(uint64_t handle, struct stub_ctx *whole)
{
    struct stub_ctx *ctx = ctx_alloc();

    if (!ctx)
        return NULL;
    ctx->handle = handle;
    ctx->index = wire_handle_index(handle);
    ctx->dev = whole->dev;
    ctx->whole = whole;
    atomic_store(&ctx->unique, atomic_fetch_add(&next_unique, 1));
    ctx->refs = 1;
    ctx->alive = true;
    gp_lock_take(&greens.lock);
    ctx->next_green = greens.first;
    greens.first = ctx;
    gp_lock_release(&greens.lock);
    return ctx;
}

void
stub_ctx_end_green(struct stub_ctx *ctx)
{
    struct stub_ctx **at = &greens.first;

    if (!ctx)
        return;
    gp_lock_take(&greens.lock);
    while (*at && *at != ctx)
        at = &(*at)->next_green;
    if (*at)
        *at = ctx->next_green;
    gp_lock_release(&greens.lock);
    atomic_store(&ctx->alive, false);
    stub_ctx_unref(ctx);
}

static struct stub_ctx *
green_get(uint64_t handle)
{
    struct stub_ctx *ctx;

    gp_lock_take(&greens.lock);
    for (ctx = greens.first; ctx && ctx->handle != handle; ctx = ctx->next_green)
        ;
    gp_lock_release(&greens.lock);
    return ctx;
}

/* Kinds whose objects live and die with a context.  The functions of a module go with
 * the module. */
static const uint32_t ctx_kinds[] = {
    WIRE_KIND_STREAM, WIRE_KIND_EVENT,  WIRE_KIND_MODULE,  WIRE_KIND_ARRAY,
    WIRE_KIND_MIPMAP, WIRE_KIND_TEXOBJ, WIRE_KIND_SURFOBJ,
};

static struct stub_ctx_storage_removed *
ctx_clear(struct stub_ctx *ctx)
{
    atomic_store(&ctx->alive, false);
    for (size_t i = 0; i < ARRAY_SIZE(ctx_kinds); i++)
        stub_handle_del_of_ctx(ctx_kinds[i], ctx->index);
    return stub_ctx_storage_remove_all(&ctx->storage);
}

/* A later life of it is another context to whoever keys things by number. */
struct stub_ctx_storage_removed *
stub_ctx_end_primary(struct stub_ctx *ctx)
{
    struct stub_ctx_storage_removed *removed = ctx_clear(ctx);

    atomic_store(&ctx->unique, atomic_fetch_add(&next_unique, 1));
    return removed;
}

void
stub_ctx_end(struct stub_ctx *ctx)
{
    struct stub_ctx_storage_removed *removed = ctx_clear(ctx);

    stub_ctx_storage_destroy(removed, stub_ctx_handle(ctx));
    stub_handle_del(WIRE_KIND_CTX, ctx->handle);
    stub_ctx_unref(ctx);
}

static bool
is_named(uint64_t handle)
{
    return wire_handle_is(handle, WIRE_KIND_CTX) &&
           wire_handle_index(handle) >= WIRE_INDEX_SERVER;
}

struct stub_ctx *
stub_ctx_get_part(CUcontext handle)
{
    if (unlikely(is_named((uintptr_t)handle)))
        return green_get((uintptr_t)handle);
    return stub_handle_data(WIRE_KIND_CTX, (uintptr_t)handle);
}

struct stub_ctx *
stub_ctx_get(CUcontext handle)
{
    struct stub_ctx *ctx = stub_ctx_get_part(handle);

    return ctx && ctx->whole ? ctx->whole : ctx;
}

static struct stub_ctx *
stack_top(void)
{
    return stub_tls.depth ? stub_tls.stack[stub_tls.depth - 1] : NULL;
}

CUcontext
stub_ctx_current(void)
{
    return stub_ctx_handle(stack_top());
}

bool
stub_ctx_current_is_gone(void)
{
    return unlikely(stub_tls.ctx_frame != stub_tls.ctx_index) &&
           !atomic_load(&stack_top()->alive);
}

CUresult
stub_ctx_resolve(CUcontext handle, struct stub_ctx **ret)
{
    struct stub_ctx *ctx = handle ? stub_ctx_get(handle) : stub_tls.ctx;

    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_load(&ctx->alive) || (!handle && stub_ctx_current_is_gone()))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret = ctx;
    return CUDA_SUCCESS;
}

CUresult
stub_ctx_enter(void)
{
    struct stub_ctx *ctx;
    CUresult r = stub_enter();

    return r == CUDA_SUCCESS ? stub_ctx_resolve(NULL, &ctx) : r;
}

/* ---- the stack of this thread ----------------------------------------------- */

static void
ctx_update_top(void)
{
    struct stub_ctx *top = stack_top();
    struct stub_ctx *ctx = top && top->whole ? top->whole : top;

    stub_tls.ctx = ctx;
    stub_tls.ctx_index = ctx ? ctx->index : 0;
    stub_tls.ctx_frame = top ? top->index : 0;
    stub_tls.link = &stub_links[ctx ? wire_handle_link(ctx->handle) : 0];
}

/* The oldest versions, and weak, as in stub_thread.c: a program that has not loaded the
 * threads of an old C library has one thread, and that one's stack ends with it. */
#if !defined(GP_SANITIZED)
#if defined(__x86_64__)
__asm__(".symver pthread_key_create,pthread_key_create@GLIBC_2.2.5");
__asm__(".symver pthread_setspecific,pthread_setspecific@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_key_create,pthread_key_create@GLIBC_2.17");
__asm__(".symver pthread_setspecific,pthread_setspecific@GLIBC_2.17");
#endif
extern int pthread_key_create(pthread_key_t *key, void (*end)(void *))
    __attribute__((weak));
extern int pthread_setspecific(pthread_key_t key, const void *value)
    __attribute__((weak));
#endif

static pthread_key_t stack_key;
static bool stack_key_made; /* a program may use up all keys there are */
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

/* A thread ends.  A runtime's own destructors may still ask for the current context,
 * so the first round only asks for a second one, which comes after theirs. */
static void
ctx_stack_end(void *round)
{
    static char second;

    if (round != &second && pthread_setspecific(stack_key, &second) == 0)
        return;
    while (stub_tls.depth)
        stub_ctx_pop();
    free(stub_tls.stack);
    stub_tls.stack = NULL;
    stub_tls.cap = 0;
}

static void
ctx_stack_key(void)
{
    stack_key_made = pthread_key_create(&stack_key, ctx_stack_end) == 0;
}

/* Have ctx_stack_end() called when this thread ends.  Without a key the thread leaves
 * its stack behind, which is no reason to refuse it a context. */
static int
ctx_stack_watch(void)
{
#if !defined(GP_SANITIZED)
    if (!pthread_key_create || !pthread_setspecific)
        return 0;
#endif
    pthread_once(&stack_once, ctx_stack_key);
    return stack_key_made ? -pthread_setspecific(stack_key, &stub_tls) : 0;
}

static int
ctx_stack_grow(void)
{
    uint32_t cap = stub_tls.cap ? 2 * stub_tls.cap : STACK_FIRST;
    struct stub_ctx **grown;

    if (cap > STACK_MAX)
        return -ENOMEM;
    if (ctx_stack_watch() < 0)
        return -ENOMEM;
    grown = realloc(stub_tls.stack, cap * sizeof(struct stub_ctx *));
    if (!grown)
        return -ENOMEM;
    stub_tls.stack = grown;
    stub_tls.cap = cap;
    return 0;
}

int
stub_ctx_push(struct stub_ctx *ctx)
{
    if (stub_tls.depth == stub_tls.cap && ctx_stack_grow() < 0)
        return -ENOMEM;
    stub_ctx_ref(ctx);
    stub_tls.stack[stub_tls.depth++] = ctx;
    ctx_update_top();
    return 0;
}

/* One that was destroyed between the search and the reference may be another context,
 * of another link, by now. */
struct stub_ctx *
stub_ctx_ref_on(uint32_t link, uint32_t index, bool *ret_alive)
{
    struct stub_ctx *ctx;

    for (;;) {
        ctx = stub_ctx_on(link, index);
        if (!ctx_ref_used(ctx))
            continue;
        *ret_alive = atomic_load(&ctx->alive);
        if (ctx == &nowhere[link] ||
            (*ret_alive && wire_handle_link(ctx->handle) == link))
            return ctx;
        stub_ctx_unref(ctx);
    }
}

int
stub_ctx_push_on(uint32_t link, uint32_t index, bool *ret_alive)
{
    struct stub_ctx *ctx = stub_ctx_ref_on(link, index, ret_alive);
    int r = stub_ctx_push(ctx);

    stub_ctx_unref(ctx);
    return r;
}

CUcontext
stub_ctx_pop(void)
{
    struct stub_ctx *ctx = stack_top();
    CUcontext handle = stub_ctx_handle(ctx);

    if (!ctx)
        return NULL;
    stub_tls.depth--;
    ctx_update_top();
    stub_ctx_unref(ctx);
    return handle;
}

int
stub_ctx_set(struct stub_ctx *ctx)
{
    struct stub_ctx *old = stack_top();

    if (ctx == old)
        return 0;
    if (!ctx) {
        stub_ctx_pop();
        return 0;
    }
    if (!old)
        return stub_ctx_push(ctx);
    stub_ctx_ref(ctx);
    stub_tls.stack[stub_tls.depth - 1] = ctx;
    ctx_update_top();
    stub_ctx_unref(old);
    return 0;
}
