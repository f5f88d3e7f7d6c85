/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel objects, their layouts, and looking them up. */
#include "stub_func.h"

#include "cuda_api.h"
#include "gp_base.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_replica.h"
#include "stub_sticky.h"
#include "wire_api.h"
#include "wire_trace.h"

#include <string.h>

/* What a module or library handle owns. */
struct func_list {
    struct gp_lock lock;
    struct stub_func *first;
};

static struct gp_lock lists_lock; /* creation of lists */

GP_HOT_DATA _Atomic uint32_t stub_func_gone;

/* ---- objects ---------------------------------------------------------------- */

/* Both replies that carry a layout look the same. */
struct func_reply {
    const struct wire_cuModuleGetFunction_rep *f;
    const int32_t *attrs;
    const uint64_t *params;
};

static bool
func_reply_open(const struct stub_call *c, struct func_reply *ret)
{
    struct wire_cuModuleGetFunction_rep_view view;

    static_assert(sizeof(struct wire_cuModuleGetFunction_rep) ==
                          sizeof(struct wire_cuLibraryGetKernel_rep) &&
                      sizeof(struct wire_cuModuleGetFunction_rep) ==
                          sizeof(struct wire_gp_func_info_rep),
                  "one reader for the three");
    if (!wire_cuModuleGetFunction_rep_open(&view, c->reply, c->reply_size, 0))
        return false;
    ret->f = view.f;
    ret->attrs = view.attrs;
    ret->params = view.params;
    return true;
}

/* If the server reports a parameter outside of the block, the whole layout is
 * refused. */
static bool
func_take_params(struct stub_func *func, const struct func_reply *reply)
{
    for (uint32_t i = 0; i < func->n_params; i++) {
        uint32_t offset = (uint32_t)reply->params[i];
        uint32_t size = (uint32_t)(reply->params[i] >> 32);

        if (size > func->param_bytes || offset > func->param_bytes - size)
            return false;
        func->params[i] = (struct stub_param){offset, size};
        func->odd |= size != 4 && size != 8;
    }
    return true;
}

/* With several devices a kernel of a library, which only its owner tells, has limits on
 * each, and what the server says is one's. */
static bool
limits_are_known(const struct func_reply *reply, uint64_t owner)
{
    return reply->f->n_attrs >= STUB_FUNC_ATTRS &&
           (stub_device_count == 1 || wire_handle_is(owner, WIRE_KIND_MODULE));
}

static struct stub_func *
func_new(const struct func_reply *reply, uint64_t handle, uint64_t owner,
         const char *name)
{
    struct stub_func *func;

    if (reply->f->param_bytes > STUB_PARAM_BYTES_MAX)
        return NULL;
    func = calloc(1, sizeof(*func) + reply->f->n_params * sizeof(func->params[0]));
    if (!func)
        return NULL;
    func->handle = handle;
    func->owner = owner;
    func->param_bytes = reply->f->param_bytes;
    func->n_params = reply->f->n_params;
    func->max_shared = UINT32_MAX;
    if (limits_are_known(reply, owner)) {
        const int32_t *attrs = memcpy(func->attrs, reply->attrs, sizeof(func->attrs));
        int32_t shared = attrs[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];

        func->max_threads =
            (uint32_t)gp_max(attrs[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK], 0);
        if (shared > 0) /* else the driver did not say */
            func->max_shared = (uint32_t)shared;
    } else {
        atomic_store_explicit(&func->set, true, memory_order_relaxed);
    }
    func->name = strdup(name ? name : "");
    if (!func->name || !func_take_params(func, reply)) {
        free(func->name);
        free(func);
        return NULL;
    }
    return func;
}

static void
func_drop(void *data)
{
    struct stub_func *func = data;

    atomic_fetch_add(&stub_func_gone, 1); /* before its memory is another's */
    free(func->old);
    free(func->name);
    free(func);
}

static void
func_list_drop(void *data)
{
    struct func_list *list = data;
    struct stub_func *func = list->first, *next;

    for (; func; func = next) {
        next = func->next;
        stub_handle_del(WIRE_KIND_FUNC, func->handle);
    }
    free(list);
}

/* For traces.  If another thread unloads the function meanwhile, the program has
 * made a mistake, and the trace shows it. */
static const char *
func_name(uint64_t handle)
{
    const struct stub_func *func = stub_handle_data(WIRE_KIND_FUNC, handle);

    return func ? func->name : NULL;
}

void
stub_func_init(void)
{
    wire_trace_func_name = func_name;
    stub_handle_on_del(WIRE_KIND_FUNC, func_drop);
    stub_handle_on_del(WIRE_KIND_MODULE, func_list_drop);
    stub_handle_on_del(WIRE_KIND_LIBRARY, func_list_drop);
}

/* ---- looking up ------------------------------------------------------------- */

static struct func_list *
func_list_of(uint32_t kind, uint64_t owner)
{
    struct func_list *list = stub_handle_data(kind, owner);

    if (list)
        return list;
    gp_lock_take(&lists_lock);
    list = stub_handle_data(kind, owner);
    if (!list) {
        list = calloc(1, sizeof(*list));
        if (list)
            stub_handle_set_data(kind, owner, list);
    }
    gp_lock_release(&lists_lock);
    return list;
}

/* ---- modules of libraries ---- */

/* The module that a library has in a context.  Its functions are the library's kernels,
 * whichever of the two a program asks.  At another server than the library's it is that
 * of a replica, whose kernels have handles of their own. */
struct library_module {
    struct library_module *next;
    uint64_t module, library;
};

static struct gp_lock modules_lock;
static struct library_module *library_modules;

/* The entry of @module, or NULL; those of libraries that have been unloaded go. */
static struct library_module *
library_module_find(uint64_t module)
{
    struct library_module **at = &library_modules, *found = NULL;

    while (*at) {
        struct library_module *m = *at;

        if (!stub_handle_ok(WIRE_KIND_LIBRARY, m->library)) {
            *at = m->next;
            free(m);
            continue;
        }
        if (m->module == module)
            found = m;
        at = &m->next;
    }
    return found;
}

static void
library_module_add(uint64_t module, uint64_t library)
{
    struct library_module *m;

    if (wire_handle_link(module) != wire_handle_link(library))
        return;
    gp_lock_take(&modules_lock);
    m = library_module_find(module);
    if (!m) {
        m = calloc(1, sizeof(*m));
        if (m) {
            m->module = module;
            m->next = library_modules;
            library_modules = m;
        }
    }
    if (m)
        m->library = library;
    gp_lock_release(&modules_lock);
}

/* 0: it is not known as one, or the library has been unloaded. */
static uint64_t
library_of_module(uint64_t module)
{
    const struct library_module *m;
    uint64_t library;

    gp_lock_take(&modules_lock);
    for (m = library_modules; m && m->module != module; m = m->next)
        ;
    library = m && stub_handle_ok(WIRE_KIND_LIBRARY, m->library) ? m->library : 0;
    gp_lock_release(&modules_lock);
    return library;
}

/* Ask for @name of @owner as @handle.  Both requests look the same. */
static CUresult
func_query(uint16_t number, uint64_t handle, uint64_t owner, const char *name,
           struct stub_func **ret)
{
    struct wire_cuModuleGetFunction_req head = {
        .hfunc = handle,
        .hmod = owner,
        .name_len = (uint32_t)strlen(name) + 1,
    };
    struct wire_cuModuleGetFunction_req_room room;
    struct func_reply reply;
    struct stub_call c;
    CUresult r;

    static_assert(sizeof(head) == sizeof(struct wire_cuLibraryGetKernel_req) &&
                      offsetof(struct wire_cuLibraryGetKernel_req, library) ==
                          offsetof(struct wire_cuModuleGetFunction_req, hmod),
                  "one writer for both");
    r = stub_call_begin(&c, number, wire_cuModuleGetFunction_req_size(&head));
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuModuleGetFunction_req_place(&room, c.body);
    memcpy(room.name, name, head.name_len);
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS) {
        *ret =
            func_reply_open(&c, &reply) ? func_new(&reply, handle, owner, name) : NULL;
        r = *ret ? CUDA_SUCCESS : stub_call_bad(number);
    }
    stub_call_end(&c);
    return r;
}

/* Under the list's lock, so that a name has one handle. */
static CUresult
func_lookup_locked(uint32_t kind, struct func_list *list, uint64_t owner,
                   const char *name, uint64_t *ret)
{
    uint16_t number = kind == WIRE_KIND_LIBRARY ? WIRE_CALL_cuLibraryGetKernel
                                                : WIRE_CALL_cuModuleGetFunction;
    struct stub_func *func = list->first;
    uint64_t handle;
    CUresult r;

    while (func && strcmp(func->name, name) != 0)
        func = func->next;
    if (func) {
        *ret = func->handle;
        return CUDA_SUCCESS;
    }
    handle = stub_handle_new(WIRE_KIND_FUNC);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = func_query(number, handle, owner, name, &func);
    if (r != CUDA_SUCCESS) {
        stub_handle_del(WIRE_KIND_FUNC, handle);
        return r;
    }
    func->next = list->first;
    list->first = func;
    stub_handle_set_data(WIRE_KIND_FUNC, handle, func);
    *ret = handle;
    return CUDA_SUCCESS;
}

/* Get the function or kernel @name of @owner (@kind is which of the two); its handle.
 */
static CUresult
func_lookup(uint32_t kind, uint64_t owner, const char *name, uint64_t *ret)
{
    struct func_list once = {0}, *list;
    uint64_t library = 0;
    CUresult r;

    if (strlen(name) >= 32768)
        return CUDA_ERROR_NOT_FOUND; /* longer than any name the wire carries */
    if (kind == WIRE_KIND_MODULE && wire_handle_index(owner) >= WIRE_INDEX_SERVER)
        library = library_of_module(owner);
    if (library) {
        kind = WIRE_KIND_LIBRARY;
        owner = library;
    }
    /* A module that the worker allocated has no entry here to keep a list with. */
    if (wire_handle_index(owner) >= WIRE_INDEX_SERVER)
        return func_lookup_locked(kind, &once, owner, name, ret);
    list = func_list_of(kind, owner);
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    gp_lock_take(&list->lock);
    r = func_lookup_locked(kind, list, owner, name, ret);
    gp_lock_release(&list->lock);
    return r;
}

/* ---- functions that came without a lookup ----------------------------------- */

/* Layouts of handles that the worker allocated, which have no slot in our tables. */
static struct gp_lock foreign_lock;
static struct stub_func *foreign;

static CUresult
func_query_info(uint64_t handle, struct stub_func **ret)
{
    struct wire_gp_func_info_req *req;
    struct func_reply reply;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_gp_func_info, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hfunc = handle;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS) {
        *ret = func_reply_open(&c, &reply) ? func_new(&reply, handle, 0, NULL) : NULL;
        r = *ret ? CUDA_SUCCESS : stub_call_bad(WIRE_CALL_gp_func_info);
    }
    stub_call_end(&c);
    return r;
}

static CUresult
func_get_foreign(uint64_t handle, struct stub_func **ret)
{
    struct stub_func *func;
    CUresult r = CUDA_SUCCESS;

    gp_lock_take(&foreign_lock);
    for (func = foreign; func && func->handle != handle; func = func->next)
        ;
    if (!func) {
        r = func_query_info(handle, &func);
        if (r == CUDA_SUCCESS) {
            func->next = foreign;
            foreign = func;
        }
    }
    gp_lock_release(&foreign_lock);
    *ret = func;
    return r;
}

CUresult
stub_func_find(CUfunction handle, struct stub_func **ret)
{
    uint32_t gone = atomic_load(&stub_func_gone);
    uint64_t h = (uintptr_t)handle;

    *ret = stub_handle_data(WIRE_KIND_FUNC, h);
    if (!*ret)
        return stub_handle_ok(WIRE_KIND_FUNC, h) ? func_get_foreign(h, ret)
                                                 : CUDA_ERROR_INVALID_HANDLE;
    stub_tls.func = *ret;
    stub_tls.func_handle = h;
    stub_tls.func_gone = gone;
    return CUDA_SUCCESS;
}

bool
stub_func_is_everywhere(uint64_t handle)
{
    const struct stub_func *func = stub_handle_data(WIRE_KIND_FUNC, handle);

    return func && wire_handle_is(func->owner, WIRE_KIND_LIBRARY);
}

uint64_t
stub_replica_func(uint64_t handle)
{
    const struct stub_func *func = stub_handle_data(WIRE_KIND_FUNC, handle);
    uint64_t library, found;

    if (!func || wire_handle_link(handle) == stub_link_here()->number)
        return handle;
    library = stub_replica_library(func->owner);
    if (library == func->owner ||
        func_lookup(WIRE_KIND_LIBRARY, library, func->name, &found) != CUDA_SUCCESS)
        return handle;
    return found;
}

/* ---- the calls -------------------------------------------------------------- */

CUresult
stub_impl_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    uint64_t handle;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_sticky_result();
    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_MODULE, (uintptr_t)hmod))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!hfunc || !name)
        return CUDA_ERROR_INVALID_VALUE;
    r = func_lookup(WIRE_KIND_MODULE, (uintptr_t)hmod, name, &handle);
    if (r == CUDA_SUCCESS)
        *hfunc = (CUfunction)(uintptr_t)handle;
    return r;
}

CUresult
stub_impl_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    uint64_t handle;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_LIBRARY, (uintptr_t)library))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!pKernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    r = func_lookup(WIRE_KIND_LIBRARY, (uintptr_t)library, name, &handle);
    if (r == CUDA_SUCCESS)
        *pKernel = (CUkernel)(uintptr_t)handle;
    return r;
}

CUresult
stub_impl_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    CUresult r = stub_gen_cuLibraryGetModule(pMod, library);

    if (r == CUDA_SUCCESS)
        library_module_add((uintptr_t)*pMod, (uintptr_t)library);
    return r;
}

CUresult
stub_impl_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    CUresult r = stub_gen_cuFuncGetModule(hmod, hfunc);
    const struct stub_func *func = stub_handle_data(WIRE_KIND_FUNC, (uintptr_t)hfunc);

    if (r == CUDA_SUCCESS && func && wire_handle_is(func->owner, WIRE_KIND_LIBRARY))
        library_module_add((uintptr_t)*hmod, func->owner);
    return r;
}

/* The server may never have resolved the kernel that a function is of. */
static CUfunction
function_of_library(CUfunction found, uint64_t library)
{
    const char *name;
    uint64_t handle;

    if (wire_handle_index((uintptr_t)found) < WIRE_INDEX_SERVER ||
        cuFuncGetName(&name, found) != CUDA_SUCCESS ||
        func_lookup(WIRE_KIND_LIBRARY, library, name, &handle) != CUDA_SUCCESS)
        return found;
    return (CUfunction)(uintptr_t)handle;
}

CUresult
stub_impl_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
                                     CUmodule mod)
{
    CUresult r = stub_gen_cuModuleEnumerateFunctions(functions, numFunctions, mod);
    uint64_t library = r == CUDA_SUCCESS ? library_of_module((uintptr_t)mod) : 0;

    for (unsigned int i = 0; library && i < numFunctions && functions[i]; i++)
        functions[i] = function_of_library(functions[i], library);
    return r;
}

/* The worker resolves a kernel in the context of whatever uses it. */
CUresult
stub_impl_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    struct stub_ctx *ctx;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(NULL, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_FUNC, (uintptr_t)kernel))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!pFunc)
        return CUDA_ERROR_INVALID_VALUE;
    *pFunc = (CUfunction)(uintptr_t)kernel;
    return CUDA_SUCCESS;
}

/* Functions with one address for host and device need both on one machine, and the
 * devices report that they have none (stub_device.c). */
CUresult
stub_impl_cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library,
                                      const char *symbol)
{
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_LIBRARY, (uintptr_t)library))
        return CUDA_ERROR_INVALID_HANDLE;
    return fptr && symbol ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}
