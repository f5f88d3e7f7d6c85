/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From image bytes to a compiled program, and the error codes on the way.
 */
#include "sg_module.h"

#include "sg_check.h"
#include "sg_core.h"
#include "sg_dev.h"
#include "sg_link.h"

#include "gp_err.h"
#include "gp_image.h"
#include "gp_log.h"
#include "ptx_ast.h"
#include "sg_image.h"
#include "sg_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a block's shared memory is a multiple of: the unit of allocation that
 * %total_smem_size counts in (PTX ISA).  A card checks no finer, so programs read and
 * write there; a check says so. */
static uint32_t
shared_unit(const struct sg_dev *dev, unsigned check)
{
    if (dev->exact || check)
        return 1;
    return dev->profile->major < 8 ? 256 : 128;
}

static struct sg_target
target_of(const struct sg_dev *dev)
{
    const unsigned check = sg_check_flags() & ~SG_CHECK_LEAKS;

    return (struct sg_target){
        .cc_major = (unsigned)dev->profile->major,
        .cc_minor = (unsigned)dev->profile->minor,
        .max_threads_per_cta = 1024,
        .max_shared_per_cta = (uint32_t)dev->profile->shared_optin,
        .shared_unit = shared_unit(dev, check),
        .max_local_per_thread = 512 << 10,
        .max_param_bytes = 32764,
        .check = check,
    };
}

static CUresult
load_error(int r, const void *image, size_t len)
{
    struct gp_image info;

    switch (r) {
    case -ENOEXEC:
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -ENOENT:
        return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
    }
    if (gp_image_measure(image, len, &info, NULL) < 0 || info.kind == GP_IMAGE_ELF)
        return CUDA_ERROR_INVALID_IMAGE;
    return CUDA_ERROR_INVALID_PTX;
}

/* What is declared .extern and defined nowhere, in an image that was not linked, is a
 * variable of the module, as ptxas has it ("ignoring extern qualifier"); OpenCL kernels
 * that PoCL compiles need it.  Without a size it cannot be one. */
static int
check_externals(const struct sg_prog *prog, struct gp_err *err)
{
    for (uint32_t i = 0; i < sg_prog_n_globals(prog); i++) {
        const struct sg_global *g = sg_prog_global(prog, i);

        if (!g->external)
            continue;
        if (!g->size)
            return gp_err_set(err, -EINVAL,
                              "variable %s has no size, and is defined nowhere",
                              g->name);
        gp_log_info(
            "softgpu",
            "loading a module: %s is defined nowhere: it is the module's, and 0",
            g->name);
    }
    return 0;
}

CUresult
sg_code_compile(const struct sg_dev *dev, struct ptx_module *ast,
                struct sg_code **ret_code, struct gp_err *err)
{
    struct sg_target target = target_of(dev);
    struct sg_code *code = calloc(1, sizeof(*code));
    int r;

    if (!code) {
        ptx_module_free(ast);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ptx_module_place_params(ast, target.cc_major * 10 + target.cc_minor);
    code->refs = 1;
    code->ast = ast;
    code->ptx_version = ast->version_major * 10 + ast->version_minor;
    r = sg_prog_new(ast, &target, &code->prog, err);
    if (!r)
        r = check_externals(code->prog, err);
    if (r < 0) {
        sg_code_unref(code);
        return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_PTX;
    }
    *ret_code = code;
    return CUDA_SUCCESS;
}

static int
parse_image(const void *image, size_t len, unsigned sm, struct ptx_module **ret_ast,
            struct gp_err *err)
{
    struct gp_image info;

    if (gp_image_measure(image, len, &info, NULL) == 0 && info.kind == GP_IMAGE_PTX &&
        sg_link_is_image(info.data, info.len))
        return sg_link_parse(info.data, info.len, ret_ast, err);
    return sg_image_parse(image, len, sm, ret_ast, err);
}

/* The log is the server's where the card is remote: the user hears of the first image,
 * for programs that try many. */
static void
say_why_not(const char *why)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char words[512];

    snprintf(words, sizeof(words), "loading a module: %s", why);
    gp_log_error("softgpu", "%s", words);
    if (!atomic_flag_test_and_set(&said))
        sg_output_say(words);
}

CUresult
sg_code_load(const struct sg_dev *dev, const void *image, size_t len,
             struct sg_code **ret_code, struct gp_err *err)
{
    unsigned sm = (unsigned)(dev->profile->major * 10 + dev->profile->minor);
    struct ptx_module *ast;
    CUresult rc;
    int r;

    r = parse_image(image, len, sm, &ast, err);
    if (r < 0)
        rc = load_error(r, image, len);
    else
        rc = sg_code_compile(dev, ast, ret_code, err);
    if (rc != CUDA_SUCCESS)
        say_why_not(gp_err_msg(err, r));
    return rc;
}

void
sg_code_unref(struct sg_code *code)
{
    if (!code || --code->refs)
        return;
    sg_prog_free(code->prog);
    ptx_module_free(code->ast);
    free(code);
}

CUresult
sg_image_from_file(const char *path, void **ret_image, size_t *ret_len)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP_FREE char *buf = NULL;
    struct stat st;
    size_t got = 0;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return CUDA_ERROR_FILE_NOT_FOUND;
    if (st.st_size <= 0 || (uint64_t)st.st_size > GP_IMAGE_MAX_BYTES)
        return CUDA_ERROR_INVALID_IMAGE;
    buf = malloc((size_t)st.st_size + 1);
    if (!buf)
        return CUDA_ERROR_OUT_OF_MEMORY;
    while (got < (size_t)st.st_size) {
        ssize_t n = read(fd, buf + got, (size_t)st.st_size - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return CUDA_ERROR_FILE_NOT_FOUND;
        got += (size_t)n;
    }
    buf[got] = '\0';
    *ret_image = TAKE_PTR(buf);
    *ret_len = got;
    return CUDA_SUCCESS;
}

CUresult
sg_kernel_ready(const struct sg_kernel *kernel)
{
    struct gp_err err = {0};
    int r;

    sg_unlock();
    r = sg_kernel_prepare(kernel, &err);
    if (r < 0)
        gp_log_error("softgpu", "kernel %s: %s", kernel->name, gp_err_msg(&err, r));
    sg_lock();
    switch (r) {
    case 0:
        return CUDA_SUCCESS;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -ENOSYS:
        return CUDA_ERROR_NOT_SUPPORTED;
    case -ENOENT:
        return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
    default:
        return CUDA_ERROR_INVALID_PTX;
    }
}
