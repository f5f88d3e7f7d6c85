/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image of a link, and the exported cuLink* calls.
 */
#include "sg_link.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_devrt.h"
#include "sg_handle.h"
#include "sg_jit.h"
#include "sg_module.h"

#include "gp_err.h"
#include "gp_image.h"
#include "gp_log.h"
#include "ptx_ast.h"
#include "ptx_link.h"
#include "sg_image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_MAGIC "// softgpu-linked "
#define REGS_MAGIC "// softgpu-registers "
/* Libraries hold machine code; only what sg_devrt.h has of them exists here. */
#define AR_MAGIC "!<arch>\n"
#define PART_MAGIC "// softgpu-part "

/* ------------------------------------------------------------------- the image */

bool
sg_link_is_image(const char *text, size_t len)
{
    return len > strlen(LINK_MAGIC) && !memcmp(text, LINK_MAGIC, strlen(LINK_MAGIC));
}

/* "<magic><number>\n" at *pos; moves *pos behind it. */
static int
header_line(const char *text, size_t len, size_t *pos, const char *magic, uint64_t *ret)
{
    size_t at = *pos + strlen(magic), digits = 0;
    uint64_t v = 0;

    if (at > len || memcmp(text + *pos, magic, strlen(magic)))
        return -EINVAL;
    for (; at < len && text[at] >= '0' && text[at] <= '9' && digits < 12;
         at++, digits++)
        v = v * 10 + (uint64_t)(text[at] - '0');
    if (!digits || at >= len || text[at] != '\n')
        return -EINVAL;
    *pos = at + 1;
    *ret = v;
    return 0;
}

static void
free_modules(struct ptx_module **mods, size_t n)
{
    for (size_t i = 0; mods && i < n; i++)
        ptx_module_free(mods[i]);
    free(mods);
}

/* CU_JIT_MAX_REGISTERS: as .maxnreg of every kernel that gives no lower one. */
static void
limit_registers(struct ptx_module *mod, uint64_t regs)
{
    for (uint32_t i = 0; regs && i < mod->n_funcs; i++) {
        struct ptx_func *f = (struct ptx_func *)(uintptr_t)mod->funcs[i];
        if (f->is_entry && (!f->maxnreg || f->maxnreg > regs))
            f->maxnreg = (uint32_t)gp_min(regs, 255u);
    }
}

int
sg_link_parse(const char *text, size_t len, struct ptx_module **ret, struct gp_err *err)
{
    struct ptx_module **mods;
    uint64_t n, regs, part;
    size_t pos = 0;
    int r;

    r = header_line(text, len, &pos, LINK_MAGIC, &n);
    if (r == 0)
        r = header_line(text, len, &pos, REGS_MAGIC, &regs);
    if (r < 0 || !n || n > PTX_LINK_MAX_INPUTS)
        return gp_err_set(err, -EINVAL, "a linked image with a broken header");
    mods = calloc(n, sizeof(*mods));
    if (!mods)
        return -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++) {
        r = header_line(text, len, &pos, PART_MAGIC, &part);
        if (r < 0 || part > len - pos) {
            r = gp_err_set(err, -EINVAL, "a linked image with a broken part");
            break;
        }
        r = ptx_parse(text + pos, part, &mods[i], err);
        pos += part;
    }
    if (r == 0)
        r = ptx_link(mods, (uint32_t)n, ret, err);
    if (r == 0)
        free(mods);
    else
        free_modules(mods, n);
    if (r == 0)
        limit_registers(*ret, regs);
    return r;
}

static size_t
add_part(char *image, size_t at, size_t cap, const char *text, size_t len)
{
    at += (size_t)snprintf(image + at, cap - at, PART_MAGIC "%zu\n", len);
    memcpy(image + at, text, len);
    return at + len;
}

/* To be freed; NUL-terminated, not counted. */
static int
link_make(char *const *texts, const size_t *lens, size_t n, unsigned max_regs,
          char **ret_image, size_t *ret_len, struct gp_err *err)
{
    const char *rt = sg_devrt_text(texts, lens, n);
    size_t rt_len = rt ? strlen(rt) : 0, cap = 192 + rt_len, len, parts = rt != NULL;
    CLEANUP_FREE char *image = NULL;
    struct ptx_module *linked;
    int r;

    for (size_t i = 0; i < n; i++) {
        parts += lens[i] != 0; /* a library leaves nothing */
        if (!gp_add_ok(cap, lens[i] + 64, &cap))
            return -E2BIG;
    }
    image = malloc(cap);
    if (!image)
        return -ENOMEM;
    len = (size_t)snprintf(image, cap, LINK_MAGIC "%zu\n" REGS_MAGIC "%u\n", parts,
                           max_regs);
    for (size_t i = 0; i < n; i++)
        if (lens[i])
            len = add_part(image, len, cap, texts[i], lens[i]);
    if (rt)
        len = add_part(image, len, cap, rt, rt_len);
    image[len] = '\0';
    r = sg_link_parse(image, len, &linked, err); /* the errors belong here */
    if (r < 0)
        return r;
    ptx_module_free(linked);
    *ret_image = TAKE_PTR(image);
    *ret_len = len;
    return 0;
}

/* ------------------------------------------------------------------- the calls */

struct sg_link {
    uint64_t handle;
    unsigned sm;
    struct sg_jit_log log; /* buffers of the application, valid until destroyed */
    char **texts;
    size_t *lens;
    size_t n;
    char *image;
};

static CUresult
link_result(int r)
{
    switch (r) {
    case 0:
        return CUDA_SUCCESS;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -ENOEXEC:
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case -ENOENT:
        return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
    default:
        return CUDA_ERROR_INVALID_PTX;
    }
}

SG_CALL(cuLinkCreate_v2, unsigned int numOptions, CUjit_option *options,
        void **optionValues, CUlinkState *stateOut)
{
    struct sg_link *link;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    link = calloc(1, sizeof(*link));
    if (!link)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    rc = stateOut ? sg_jit_log_begin(&link->log, numOptions, options, optionValues)
                  : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        link->handle = sg_handle_new(SG_KIND_LINK, link);
        rc = link->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc != CUDA_SUCCESS) {
        free(link);
        return sg_leave(rc);
    }
    link->sm = (unsigned)(ctx->dev->profile->major * 10 + ctx->dev->profile->minor);
    *stateOut = (CUlinkState)(uintptr_t)link->handle;
    return sg_leave(CUDA_SUCCESS);
}

/* The PTX inside @data, which is checked before it is kept. */
static int
input_text(unsigned sm, CUjitInputType type, const void *data, size_t size,
           char **ret_text, size_t *ret_len, struct gp_err *err)
{
    struct ptx_module *mod;
    int r;

    if (type == CU_JIT_INPUT_LIBRARY && size >= strlen(AR_MAGIC) &&
        !memcmp(data, AR_MAGIC, strlen(AR_MAGIC))) {
        *ret_text = strdup(""); /* what is missed then is named by the link */
        *ret_len = 0;
        return *ret_text ? 0 : -ENOMEM;
    }
    if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY)
        return gp_err_set(err, -ENOEXEC,
                          "machine code and objects cannot be "
                          "linked by a software GPU: give it PTX");
    r = sg_image_ptx(data, size, sm, ret_text, ret_len, err);
    if (r < 0)
        return r;
    r = ptx_parse(*ret_text, *ret_len, &mod, err);
    if (r < 0) {
        free(*ret_text);
        return r;
    }
    ptx_module_free(mod);
    return 0;
}

static void
inputs_free(struct sg_link *link)
{
    for (size_t i = 0; i < link->n; i++)
        free(link->texts[i]);
    free(link->texts);
    free(link->lens);
}

static CUresult
link_keep(struct sg_link *link, char *text, size_t len)
{
    char **texts = realloc(link->texts, (link->n + 1) * sizeof(*texts));
    size_t *lens;

    if (texts)
        link->texts = texts;
    lens = texts ? realloc(link->lens, (link->n + 1) * sizeof(*lens)) : NULL;
    if (!lens) {
        free(text);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    link->lens = lens;
    link->texts[link->n] = text;
    link->lens[link->n++] = len;
    return CUDA_SUCCESS;
}

static CUresult
enter_link(CUlinkState state, struct sg_link **ret_link)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_link = SG_OBJ(sg_link, SG_KIND_LINK, state);
    return *ret_link ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_HANDLE);
}

/* Parsing and linking go on without the lock; the state is looked up again.  The
 * options of an input change nothing; its logs are the state's. */
SG_CALL(cuLinkAddData_v2, CUlinkState state, CUjitInputType type, void *data,
        size_t size, const char *name, unsigned int numOptions, CUjit_option *options,
        void **optionValues)
{
    struct gp_err err = {0};
    struct sg_jit_log given;
    struct sg_link *link;
    unsigned sm;
    size_t len;
    char *text;
    CUresult rc = enter_link(state, &link);
    int r;

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_jit_log_begin(&given, numOptions, options, optionValues);
    if (rc != CUDA_SUCCESS || !data || !size ||
        (unsigned)type >= CU_JIT_NUM_INPUT_TYPES || link->image ||
        link->n >= PTX_LINK_MAX_INPUTS)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    sm = link->sm;
    sg_unlock();
    r = input_text(sm, type, data, size, &text, &len, &err);
    rc = enter_link(state, &link);
    if (rc != CUDA_SUCCESS) {
        if (r == 0)
            free(text);
        return rc;
    }
    rc = r < 0 ? link_result(r) : link_keep(link, text, len);
    if (rc != CUDA_SUCCESS) {
        sg_jit_log_end(&link->log, rc, err.msg);
        gp_log_error("softgpu", "linking %s: %s", name ? name : "an input",
                     gp_err_msg(&err, r));
    }
    return sg_leave(rc);
}

SG_CALL(cuLinkAddFile_v2, CUlinkState state, CUjitInputType type, const char *path,
        unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    CLEANUP_FREE void *image = NULL;
    size_t len;
    CUresult rc;

    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_image_from_file(path, &image, &len);
    if (rc != CUDA_SUCCESS)
        return rc;
    return cuLinkAddData_v2(state, type, image, len, path, numOptions, options,
                            optionValues);
}

SG_CALL(cuLinkComplete, CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct gp_err err = {0};
    struct sg_link *link, inputs;
    char *image = NULL;
    size_t len = 0;
    CUresult rc = enter_link(state, &link);
    int r;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!cubinOut || !link->n || link->image)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    inputs = *link; /* taken out, so that nobody ends them meanwhile */
    link->texts = NULL;
    link->lens = NULL;
    link->n = 0;
    sg_unlock();
    r = link_make(inputs.texts, inputs.lens, inputs.n, inputs.log.max_regs, &image,
                  &len, &err);
    inputs_free(&inputs);
    rc = enter_link(state, &link);
    if (rc != CUDA_SUCCESS) {
        free(image);
        return rc;
    }
    link->image = image;
    rc = link_result(r);
    sg_jit_log_end(&link->log, rc, err.msg);
    if (rc != CUDA_SUCCESS) {
        gp_log_error("softgpu", "linking: %s", gp_err_msg(&err, r));
        return sg_leave(rc);
    }
    *cubinOut = link->image; /* the state's until it is destroyed */
    if (sizeOut)
        *sizeOut = len + 1;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuLinkDestroy, CUlinkState state)
{
    struct sg_link *link;
    CUresult rc = enter_link(state, &link);

    if (rc != CUDA_SUCCESS)
        return rc;
    sg_handle_drop(link->handle);
    inputs_free(link);
    free(link->image);
    free(link);
    return sg_leave(CUDA_SUCCESS);
}
