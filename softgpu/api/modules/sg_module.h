/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded code: images compiled once, modules bound to a context, libraries bound
 * to none, and the functions and kernels in them.
 *
 * A CUkernel means the function of the library's module in whatever context is
 * current; it is made there on first use.  CUfunction and CUkernel are accepted
 * in each other's place, as in the real driver.
 *
 * Lock held for all functions but sg_code_load().  Unloading a module waits
 * until its context is idle, so launches need no references.
 */
#ifndef SG_MODULE_H
#define SG_MODULE_H

#include "sg_conf.h"
#include "sg_exec.h"

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdint.h>

struct gp_err;
struct ptx_module;
struct sg_alloc;
struct sg_ctx;
struct sg_dev;
struct sg_library;
struct sg_module;

/* A compiled image; counted. */
struct sg_code {
    unsigned refs;
    struct ptx_module *ast;
    struct sg_prog *prog;
    unsigned ptx_version; /* major * 10 + minor of the text */
};

/* What cuFuncSetAttribute and its kin can change. */
struct sg_func_attrs {
    int max_dynamic_shared;
    int carveout;
    int non_portable_cluster;
    int cluster_policy;
    unsigned cluster[3]; /* 0: not given */
    CUfunc_cache cache;
};

struct sg_func {
    uint64_t handle;
    struct sg_module *module;
    const struct sg_kernel *kernel;
    struct sg_func_attrs attrs;
    bool ready;                /* lowered */
    struct sg_old_launch *old; /* owned: the first launch interface (sg_launch_old.c) */
};

struct sg_module {
    uint64_t handle;
    struct sg_ctx *ctx;
    struct sg_module *next, **at; /* of the context */
    struct sg_code *code;
    struct sg_library *library; /* NULL: loaded by cuModuleLoad* */
    struct sg_inst *inst;
    struct sg_alloc *
        *globals;           /* [sg_prog_n_globals()]; managed ones of a library: its */
    struct sg_func **funcs; /* [sg_prog_n_kernels()], made on demand */
};

struct sg_lib_kernel {
    uint64_t handle;
    struct sg_library *library;
    const struct sg_kernel *kernel;
    struct sg_func_attrs attrs[SG_MAX_CARDS]; /* of each device */
};

struct sg_library {
    uint64_t handle;
    struct sg_library *next, **at;
    struct sg_code *code;
    struct sg_lib_kernel **kernels; /* made on demand */
    struct sg_alloc **managed;      /* [sg_prog_n_globals()]: of all its modules */
    bool managed_ready;             /* and initialised */
};

/* No lock: compiling takes time.  @len: GP_IMAGE_UNBOUNDED for a caller's bare
 * pointer. */
CUresult sg_code_load(const struct sg_dev *dev, const void *image, size_t len,
                      struct sg_code **ret_code, struct gp_err *err);
/* Takes over @ast, also on failure. */
CUresult sg_code_compile(const struct sg_dev *dev, struct ptx_module *ast,
                         struct sg_code **ret_code, struct gp_err *err);
void sg_code_unref(struct sg_code *code); /* NULL is a no-op */

CUresult sg_module_new(struct sg_ctx *ctx, struct sg_code *code,
                       struct sg_library *library, struct sg_module **ret_module);
/* Nothing of the module's context may run any more. */
void sg_module_unload(struct sg_module *module);
/* @fn is called for each module that goes away; nothing of its context runs any more.
 */
void sg_module_on_unload(void (*fn)(const struct sg_module *mod));

CUresult sg_module_func(struct sg_module *module, const struct sg_kernel *kernel,
                        struct sg_func **ret_func);
/* Address and exact size of a visible variable; both may be NULL. */
CUresult sg_module_global(struct sg_module *module, const char *name, CUdeviceptr *dptr,
                          size_t *bytes, bool managed_only);
/* The library's module in @ctx, made when there is none yet. */
CUresult sg_library_module(struct sg_library *library, struct sg_ctx *ctx,
                           struct sg_module **ret_module);

/* What a CUfunction or CUkernel handle means in @ctx. */
CUresult sg_func_get(struct sg_ctx *ctx, CUfunction handle, struct sg_func **ret_func);
/* As it is called in its image, of a function or a library's kernel; NULL: neither. */
const char *sg_func_name(CUfunction handle);
/* Lowers it if that was not done; drops the lock meanwhile.  An instruction that
 * is not carried is CUDA_ERROR_NOT_SUPPORTED, and named in the log. */
CUresult sg_kernel_ready(const struct sg_kernel *kernel);
CUresult sg_func_attribute(const struct sg_dev *dev, const struct sg_kernel *kernel,
                           const struct sg_code *code,
                           const struct sg_func_attrs *attrs, int attr, int *ret);
CUresult sg_func_set_attribute(const struct sg_dev *dev, const struct sg_kernel *kernel,
                               struct sg_func_attrs *attrs, int attr, int value);

/* Loads @path whole; to be freed. */
CUresult sg_image_from_file(const char *path, void **ret_image, size_t *ret_len);

#endif
