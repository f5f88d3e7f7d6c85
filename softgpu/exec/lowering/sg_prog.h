/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs, kernels and instances as the executor's own files see them; sg_exec.h is
 * what everybody else sees.
 *
 * Any thread; what is asked for here does not change once a kernel is prepared.
 */
#ifndef SG_PROG_H
#define SG_PROG_H

#include "sg_exec.h"
#include "sg_insn.h"

#include "gp_err.h"

#include <pthread.h>
#include <stdint.h>

struct ptx_func;
struct ptx_module;
struct ptx_var;
struct sg_unit;

struct sg_prog_kernel {
    struct sg_kernel pub; /* first: lower_kernel.c casts */
    const struct ptx_func *ast;
    struct sg_param *params;
    struct sg_unit *unit;
    int failed; /* what preparing it gave */
    struct gp_err words;
};

/* Guards the units of its kernels while they are built. */
pthread_mutex_t *sg_prog_lock(const struct sg_prog *prog);

/* The numbers of a variable, a texture reference (-1: none of the program's) and a
 * function; the module, which lives as long as @prog. */
int32_t sg_prog_global_index(const struct sg_prog *prog, const struct ptx_var *var);
int32_t sg_prog_texref_index(const struct sg_prog *prog, const struct ptx_var *var);
uint32_t sg_prog_func_index(const struct sg_prog *prog, const struct ptx_func *func);
const struct ptx_module *sg_prog_module(const struct sg_prog *prog);

const struct sg_unit *sg_kernel_unit(const struct sg_kernel *kernel);
const struct sg_target *sg_prog_target(const struct sg_prog *prog);
/* The generic address of a kernel's first parameter. */
uint64_t sg_prog_param_window(const struct sg_prog *prog);
/* The value of a constant in this instance. */
uint64_t sg_inst_const(const struct sg_inst *inst, const struct sg_const *c);

#endif
