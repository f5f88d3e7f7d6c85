/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries: the calls that load code and query its contents.
 *
 * Images are sent as stub_image.h says; the server's driver chooses the code that suits
 * its device.
 */
#include "gp_err.h"
#include "gp_file.h"
#include "gp_image.h"
#include "gp_log.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_handle.h"
#include "stub_image.h"
#include "stub_jit.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_replica.h"
#include "stub_result.h"
#include "wire_api.h"
#include "wire_result.h"

#include <errno.h>
#include <string.h>

/* An image that is none has logs all the same: programs print them when loading fails.
 */
static CUresult
image_open(struct stub_image *image, const void *code, const struct stub_jit *jit)
{
    CUresult r = stub_image_open(image, code);

    if (r != CUDA_SUCCESS)
        stub_jit_take_nothing(jit);
    return r;
}

/* ---- modules ---------------------------------------------------------------- */

/* The image itself, or with @ref its name. */
static CUresult
module_send(const struct stub_image *image, const struct wire_image_ref *ref,
            struct stub_jit *jit, uint64_t handle)
{
    struct wire_cuModuleLoadDataEx_req head = {
        .module = handle,
        .numOptions = jit->n,
        .n_parts = image->n_parts,
        .given = jit->n ? WIRE_GIVEN_cuModuleLoadDataEx_options : 0,
        .image_len = ref ? sizeof(*ref) : image->total,
    };
    struct wire_cuModuleLoadDataEx_req_room room;
    struct wire_cuModuleLoadDataEx_rep_view rep = {0};
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuModuleLoadDataEx,
                                 wire_cuModuleLoadDataEx_req_size(&head, !ref));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuModuleLoadDataEx_req_place(&room, c.body, !ref);
    stub_jit_put(jit, room.options, room.values);
    if (image->n_parts)
        memcpy(room.parts, image->len, image->n_parts * sizeof(image->len[0]));
    if (ref)
        memcpy(room.image, ref, sizeof(*ref));
    r = ref ? stub_call_wait(&c)
            : stub_call_wait_chunks(&c, image->chunk, image->n_chunks);
    if (c.reply_size &&
        wire_cuModuleLoadDataEx_rep_open(&rep, c.reply, c.reply_size, c.reply_flags))
        stub_jit_take(jit, rep.f->wall_time, rep.info_log, rep.f->info_log_len,
                      rep.error_log, rep.f->error_log_len);
    else if (r != WIRE_RESULT_WANT_IMAGE)
        stub_jit_take_nothing(jit);
    stub_call_end(&c);
    return r;
}

/* By its name if that may do, else as it is. */
static CUresult
module_load(const struct stub_image *image, struct stub_jit *jit, uint64_t handle)
{
    struct wire_image_ref ref;
    CUresult r = WIRE_RESULT_WANT_IMAGE;

    if (stub_image_name(image, &ref))
        r = module_send(image, &ref, jit, handle);
    return r == WIRE_RESULT_WANT_IMAGE ? module_send(image, NULL, jit, handle) : r;
}

CUresult
stub_impl_cuModuleLoadDataEx(CUmodule *module, const void *image,
                             unsigned int numOptions, CUjit_option *options,
                             void **optionValues)
{
    struct stub_jit jit;
    struct stub_image img;
    struct stub_ctx *ctx;
    uint64_t handle;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(NULL, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_jit_open(&jit, numOptions, options, optionValues);
    if (r == CUDA_SUCCESS)
        r = image_open(&img, image, &jit);
    if (r != CUDA_SUCCESS)
        return r;
    handle = stub_handle_new(WIRE_KIND_MODULE);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = module_load(&img, &jit, handle);
    if (r != CUDA_SUCCESS) {
        stub_handle_del(WIRE_KIND_MODULE, handle);
        return r;
    }
    *module = (CUmodule)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuModuleLoadData(CUmodule *module, const void *image)
{
    return stub_impl_cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult
stub_impl_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    return stub_impl_cuModuleLoadDataEx(module, fatCubin, 0, NULL, NULL);
}

/* A file's bytes with a NUL behind them, which ends PTX. */
static CUresult
module_read_file(const char *name, char **ret)
{
    struct gp_err err = {0};
    size_t len;
    int r = gp_file_read(name, GP_IMAGE_MAX_BYTES, ret, &len, &err);

    if (r < 0)
        gp_log_info("stub", "device code: %s", gp_err_msg(&err, r));
    return stub_result_errno(r);
}

CUresult
stub_impl_cuModuleLoad(CUmodule *module, const char *fname)
{
    CLEANUP_FREE char *bytes = NULL;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!module || !fname)
        return CUDA_ERROR_INVALID_VALUE;
    r = module_read_file(fname, &bytes);
    return r == CUDA_SUCCESS ? stub_impl_cuModuleLoadData(module, bytes) : r;
}

/* ---- libraries -------------------------------------------------------------- */

#define LIBRARY_OPTIONS 64 /* the wire's cap; there are fewer kinds */

/* A library's own options; values are plain numbers, 0 where there is none. */
struct library_options {
    int32_t option[LIBRARY_OPTIONS];
    uint64_t value[LIBRARY_OPTIONS];
    uint32_t n;
};

static CUresult
library_send(const struct stub_image *image, const struct wire_image_ref *ref,
             struct stub_jit *jit, const struct library_options *lib, uint64_t handle)
{
    struct wire_cuLibraryLoadData_req head = {
        .library = handle,
        .numJitOptions = jit->n,
        .numLibraryOptions = lib->n,
        .n_parts = image->n_parts,
        .given = (jit->n ? WIRE_GIVEN_cuLibraryLoadData_jitOptions : 0) |
                 (lib->n ? WIRE_GIVEN_cuLibraryLoadData_libraryOptions : 0),
        .image_len = ref ? sizeof(*ref) : image->total,
    };
    struct wire_cuLibraryLoadData_req_room room;
    struct wire_cuLibraryLoadData_rep_view rep = {0};
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuLibraryLoadData,
                                 wire_cuLibraryLoadData_req_size(&head, !ref));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuLibraryLoadData_req_place(&room, c.body, !ref);
    stub_jit_put(jit, room.jitOptions, room.jit_values);
    if (lib->n) {
        memcpy(room.libraryOptions, lib->option, lib->n * sizeof(lib->option[0]));
        memcpy(room.library_values, lib->value, lib->n * sizeof(lib->value[0]));
    }
    if (image->n_parts)
        memcpy(room.parts, image->len, image->n_parts * sizeof(image->len[0]));
    if (ref)
        memcpy(room.image, ref, sizeof(*ref));
    r = ref ? stub_call_wait(&c)
            : stub_call_wait_chunks(&c, image->chunk, image->n_chunks);
    if (c.reply_size &&
        wire_cuLibraryLoadData_rep_open(&rep, c.reply, c.reply_size, c.reply_flags))
        stub_jit_take(jit, rep.f->wall_time, rep.info_log, rep.f->info_log_len,
                      rep.error_log, rep.f->error_log_len);
    else if (r != WIRE_RESULT_WANT_IMAGE)
        stub_jit_take_nothing(jit);
    stub_call_end(&c);
    return r;
}

static CUresult
library_load(const struct stub_image *image, struct stub_jit *jit,
             const struct library_options *lib, uint64_t handle)
{
    struct wire_image_ref ref;
    CUresult r = WIRE_RESULT_WANT_IMAGE;

    if (stub_image_name(image, &ref))
        r = library_send(image, &ref, jit, lib, handle);
    return r == WIRE_RESULT_WANT_IMAGE ? library_send(image, NULL, jit, lib, handle)
                                       : r;
}

/* The one library option that is a pointer names host functions for devices that can
 * call them.  No device of a session can, so the option is left out. */
static CUresult
library_take_options(struct library_options *ret, uint32_t n,
                     const CUlibraryOption *options, void *const *values)
{
    if (n > LIBRARY_OPTIONS || (n && !options))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < n; i++) {
        if (options[i] == CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE)
            continue;
        if (options[i] != CU_LIBRARY_BINARY_IS_PRESERVED && !values)
            return CUDA_ERROR_INVALID_VALUE;
        ret->option[ret->n] = (int32_t)options[i];
        ret->value[ret->n++] = values ? (uintptr_t)values[i] : 0;
    }
    return CUDA_SUCCESS;
}

/* Keeps the image for the other servers of the session.  It is copied unless the
 * program promises to keep it; of a linked image only the first part is kept, which
 * is complete. */
static void
library_keep(uint64_t handle, const void *code, const struct stub_image *image,
             const struct library_options *lib)
{
    bool kept = false;

    for (uint32_t i = 0; i < lib->n; i++)
        kept |= lib->option[i] == CU_LIBRARY_BINARY_IS_PRESERVED && lib->value[i];
    stub_replica_keep(handle, code, kept ? NULL : image->chunk[0].iov_base,
                      image->len[0]);
}

CUresult
stub_impl_cuLibraryLoadData(CUlibrary *library, const void *code,
                            CUjit_option *jitOptions, void **jitOptionsValues,
                            unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                            void **libraryOptionValues, unsigned int numLibraryOptions)
{
    struct library_options lib = {0};
    struct stub_jit jit;
    struct stub_image img;
    uint64_t handle;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!library || !code)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_jit_open(&jit, numJitOptions, jitOptions, jitOptionsValues);
    if (r == CUDA_SUCCESS)
        r = library_take_options(&lib, numLibraryOptions, libraryOptions,
                                 libraryOptionValues);
    if (r == CUDA_SUCCESS)
        r = image_open(&img, code, &jit);
    if (r != CUDA_SUCCESS)
        return r;
    handle = stub_handle_new(WIRE_KIND_LIBRARY);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = library_load(&img, &jit, &lib, handle);
    if (r != CUDA_SUCCESS) {
        stub_handle_del(WIRE_KIND_LIBRARY, handle);
        return r;
    }
    library_keep(handle, code, &img, &lib);
    *library = (CUlibrary)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

/* The variable exists here too from now on, with its initial value. */
static CUresult
managed_take(CUdeviceptr dptr, size_t bytes, CUlibrary library, const char *name)
{
    struct stub_memory m;
    CUresult r;

    if (stub_memory_find(dptr, &m))
        return CUDA_SUCCESS; /* asked for before */
    stub_memory_reserve(dptr, bytes);
    if (stub_memory_add(STUB_MEMORY_MANAGED, dptr, bytes, CU_MEM_ATTACH_GLOBAL, 0) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stub_managed_add_variable(dptr, bytes, library, name);
    if (r != CUDA_SUCCESS)
        stub_memory_remove(dptr, STUB_MEMORY_MANAGED, NULL);
    return r;
}

static CUresult
managed_get(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    CUdeviceptr addr;
    size_t size;
    CUresult r = stub_gen_cuLibraryGetManaged(&addr, &size, library, name);

    if (r == CUDA_SUCCESS)
        r = managed_take(addr, size, library, name);
    if (r == CUDA_SUCCESS && dptr)
        *dptr = addr;
    if (r == CUDA_SUCCESS && bytes)
        *bytes = size;
    return r;
}

/* Runtimes look managed variables up when they start, before any context.  The
 * variable's value is on a device, so the primary context of the first device is
 * retained for it, and stays. */
CUresult
stub_impl_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                              const char *name)
{
    CUcontext ctx;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_LIBRARY, (uintptr_t)library))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (stub_tls.ctx && atomic_load(&stub_tls.ctx->alive))
        return managed_get(dptr, bytes, library, name);
    r = stub_impl_cuDevicePrimaryCtxRetain(&ctx, stub_tls.ctx ? stub_tls.ctx->dev : 0);
    if (r == CUDA_SUCCESS)
        r = stub_impl_cuCtxPushCurrent_v2(ctx);
    if (r != CUDA_SUCCESS)
        return r;
    r = managed_get(dptr, bytes, library, name);
    stub_impl_cuCtxPopCurrent_v2(NULL);
    return r;
}

CUresult
stub_impl_cuLibraryUnload(CUlibrary library)
{
    uint64_t at;

    while (library && (at = stub_managed_variable(library))) {
        stub_memory_remove(at, STUB_MEMORY_MANAGED, NULL);
        stub_managed_drop(at);
    }
    return stub_gen_cuLibraryUnload(library);
}

CUresult
stub_impl_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
                                CUjit_option *jitOptions, void **jitOptionsValues,
                                unsigned int numJitOptions,
                                CUlibraryOption *libraryOptions,
                                void **libraryOptionValues,
                                unsigned int numLibraryOptions)
{
    CLEANUP_FREE char *bytes = NULL;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!library || !fileName)
        return CUDA_ERROR_INVALID_VALUE;
    r = module_read_file(fileName, &bytes);
    if (r != CUDA_SUCCESS)
        return r;
    return stub_impl_cuLibraryLoadData(library, bytes, jitOptions, jitOptionsValues,
                                       numJitOptions, libraryOptions,
                                       libraryOptionValues, numLibraryOptions);
}
