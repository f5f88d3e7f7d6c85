/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker: inputs are sent as payloads; the finished image is received and kept here
 * until the link state is destroyed.
 */
#include "gp_err.h"
#include "gp_file.h"
#include "gp_image.h"
#include "gp_log.h"
#include "stub_call.h"
#include "stub_handle.h"
#include "stub_image.h"
#include "stub_jit.h"
#include "stub_manual.h"
#include "stub_result.h"
#include "wire_api.h"
#include "wire_result.h"

#include <string.h>

#define LINKER_OPTIONS 64 /* the wire's cap */

/* Belongs to the link state's handle. */
struct linker {
    CUjit_option options[LINKER_OPTIONS];
    struct stub_jit jit; /* with the caller's values, written until it is complete */
    void *image;
};

static void
linker_drop(void *data)
{
    struct linker *linker = data;

    free(linker->image);
    free(linker);
}

static CUresult
linker_create_call(uint64_t handle, const struct stub_jit *jit)
{
    struct wire_cuLinkCreate_v2_req head = {
        .stateOut = handle,
        .numOptions = jit->n,
        .given = jit->n ? WIRE_GIVEN_cuLinkCreate_v2_options : 0,
    };
    struct wire_cuLinkCreate_v2_req_room room;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuLinkCreate_v2,
                                 wire_cuLinkCreate_v2_req_size(&head));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuLinkCreate_v2_req_place(&room, c.body);
    stub_jit_put(jit, room.options, room.values);
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

/* CUDA requires the caller to keep the option values until completion. */
static struct linker *
linker_new(const struct stub_jit *jit)
{
    struct linker *linker = calloc(1, sizeof(*linker));

    if (!linker)
        return NULL;
    if (jit->n)
        memcpy(linker->options, jit->options, jit->n * sizeof(jit->options[0]));
    linker->jit = *jit;
    linker->jit.options = linker->options;
    return linker;
}

CUresult
stub_impl_cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options,
                          void **optionValues, CUlinkState *stateOut)
{
    struct linker *linker;
    struct stub_jit jit;
    uint64_t handle;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stateOut)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_jit_open(&jit, numOptions, options, optionValues);
    if (r != CUDA_SUCCESS)
        return r;
    linker = linker_new(&jit);
    handle = linker ? stub_handle_new(WIRE_KIND_LINK) : 0;
    r = handle ? linker_create_call(handle, &jit) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        if (handle)
            stub_handle_del(WIRE_KIND_LINK, handle);
        free(linker);
        return r;
    }
    stub_handle_on_del(WIRE_KIND_LINK, linker_drop);
    stub_handle_set_data(WIRE_KIND_LINK, handle, linker);
    *stateOut = (CUlinkState)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

struct linker_input {
    CUlinkState state;
    CUjitInputType type;
    const void *data;
    uint64_t size;
    const char *name;
};

/* The input itself, or with @ref its name. */
static CUresult
linker_send(const struct linker_input *in, const struct wire_image_ref *ref,
            const struct stub_jit *jit)
{
    struct wire_cuLinkAddData_v2_req head = {
        .state = (uintptr_t)in->state,
        .type = (int32_t)in->type,
        .numOptions = jit->n,
        .name_len = in->name ? (uint32_t)strnlen(in->name, 32767) + 1 : 0,
        .given = (in->name ? WIRE_GIVEN_cuLinkAddData_v2_name : 0) |
                 (jit->n ? WIRE_GIVEN_cuLinkAddData_v2_options : 0),
        .size = ref ? sizeof(*ref) : in->size,
    };
    struct wire_cuLinkAddData_v2_req_room room;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuLinkAddData_v2,
                                 wire_cuLinkAddData_v2_req_size(&head, !ref));

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuLinkAddData_v2_req_place(&room, c.body, !ref);
    stub_jit_put(jit, room.options, room.values);
    if (in->name) {
        memcpy(room.name, in->name, head.name_len - 1);
        room.name[head.name_len - 1] = '\0';
    }
    if (ref)
        memcpy(room.data, ref, sizeof(*ref));
    r = ref ? stub_call_wait(&c) : stub_call_wait_bulk(&c, in->data, in->size);
    stub_call_end(&c);
    return r;
}

/* Copy the driver's outputs to the caller's buffers; with @logs the texts, too. */
static void
linker_take_notes(CUlinkState state, bool logs)
{
    const struct linker *linker = stub_handle_data(WIRE_KIND_LINK, (uintptr_t)state);
    struct wire_gp_link_notes_rep_view rep = {0};
    struct wire_gp_link_notes_req *req;
    struct stub_call c;

    if (!linker || !linker->jit.n ||
        stub_call_begin(&c, WIRE_CALL_gp_link_notes, sizeof(*req)) != CUDA_SUCCESS)
        return;
    req = c.body;
    req->state = (uintptr_t)state;
    if (stub_call_wait(&c) == CUDA_SUCCESS &&
        wire_gp_link_notes_rep_open(&rep, c.reply, c.reply_size, c.reply_flags)) {
        stub_jit_take_time(&linker->jit, rep.f->wall_time);
        if (logs)
            stub_jit_take_logs(&linker->jit, rep.info_log, rep.f->info_log_len,
                               rep.error_log, rep.f->error_log_len);
    }
    stub_call_end(&c);
}

CUresult
stub_impl_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data,
                           size_t size, const char *name, unsigned int numOptions,
                           CUjit_option *options, void **optionValues)
{
    struct linker_input in = {state, type, data, size, name};
    struct wire_image_ref ref;
    struct stub_jit jit;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_LINK, (uintptr_t)state))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || !size)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_jit_open(&jit, numOptions, options, optionValues);
    if (r != CUDA_SUCCESS)
        return r;
    r = WIRE_RESULT_WANT_IMAGE;
    if (stub_image_name_input(data, size, &ref))
        r = linker_send(&in, &ref, &jit);
    if (r == WIRE_RESULT_WANT_IMAGE)
        r = linker_send(&in, NULL, &jit);
    if (r != CUDA_SUCCESS)
        linker_take_notes(state, true);
    return r;
}

CUresult
stub_impl_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                           unsigned int numOptions, CUjit_option *options,
                           void **optionValues)
{
    CLEANUP_FREE char *bytes = NULL;
    struct gp_err err = {0};
    size_t len;
    CUresult r = stub_enter();
    int e;

    if (r != CUDA_SUCCESS)
        return r;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    e = gp_file_read(path, GP_IMAGE_MAX_BYTES, &bytes, &len, &err);
    if (e < 0) {
        gp_log_info("stub", "linker input: %s", gp_err_msg(&err, e));
        return stub_result_errno(e);
    }
    /* PTX is counted with the NUL that ends it. */
    return stub_impl_cuLinkAddData_v2(state, type, bytes,
                                      len + (type == CU_JIT_INPUT_PTX), path,
                                      numOptions, options, optionValues);
}

CUresult
stub_impl_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct linker *linker = stub_handle_data(WIRE_KIND_LINK, (uintptr_t)state);
    struct wire_cuLinkComplete_rep_view rep = {0};
    struct wire_cuLinkComplete_req *req;
    struct stub_call c;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!linker)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!cubinOut)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuLinkComplete, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->state = (uintptr_t)state;
    r = stub_call_wait_into(&c, NULL, GP_IMAGE_MAX_BYTES,
                            sizeof(struct wire_cuLinkComplete_rep), 0);
    if (c.reply_size) {
        if (!wire_cuLinkComplete_rep_open(&rep, c.reply, c.reply_size,
                                          c.reply_flags & WIRE_F_BULK))
            r = stub_call_bad(WIRE_CALL_cuLinkComplete);
        else
            stub_jit_take_logs(&linker->jit, rep.info_log, rep.f->info_log_len,
                               rep.error_log, rep.f->error_log_len);
    }
    if (r == CUDA_SUCCESS && rep.f && !c.dst && rep.f->cubin_len) {
        c.dst = malloc(rep.f->cubin_len);
        if (c.dst)
            memcpy(c.dst, rep.cubin, rep.f->cubin_len);
    }
    if (r == CUDA_SUCCESS && !c.dst)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        free(linker->image);
        linker->image = c.dst;
        *cubinOut = linker->image;
        if (sizeOut)
            *sizeOut = rep.f->cubin_len;
    } else {
        free(c.dst);
    }
    stub_call_end(&c);
    linker_take_notes(state, false);
    return r;
}

CUresult
stub_impl_cuLinkDestroy(CUlinkState state)
{
    struct wire_cuLinkDestroy_req *req;
    struct stub_call c;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_LINK, (uintptr_t)state))
        return CUDA_ERROR_INVALID_HANDLE;
    r = stub_call_begin(&c, WIRE_CALL_cuLinkDestroy, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->state = (uintptr_t)state;
    r = stub_call_post(&c);
    stub_handle_del(WIRE_KIND_LINK, (uintptr_t)state);
    return r;
}
