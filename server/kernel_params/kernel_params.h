/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of kernels, read from the image that holds them.
 *
 * Drivers before 12.4 do not report the layout of a kernel's parameters, and a launch
 * names them by pointers only: to copy them, their offsets and sizes must be known.
 * The image has both: PTX in the declaration of each entry, machine code in records
 * beside each kernel.
 *
 * A struct kernel_params_set belongs to its creator, one thread at a time.  Images are
 * hostile: caps are below, and a kernel with contradictory records is kept as unknown,
 * with the reason.  No driver is asked here; wrk_kernels.h does that.
 */
#ifndef KERNEL_PARAMS_H
#define KERNEL_PARAMS_H

#include "gp_base.h"

struct gp_err;

/* Of one image; the largest machine code seen held some 7,000. */
#define KERNEL_PARAMS_KERNELS_MAX 262144u
/* Unpacked, of one fat binary: each entry is read and forgotten, so this is processor
 * time; the fat binaries of the largest published libraries hold less. */
#define KERNEL_PARAMS_UNPACKED_MAX (UINT64_C(4) << 30)
/* Of one kernel: what the wire carries, and what a card takes since 12.1. */
#define KERNEL_PARAMS_PARAMS_MAX 4096u
#define KERNEL_PARAMS_BYTES_MAX 32764u

struct kernel_param {
    uint32_t offset;
    uint32_t size;
};

struct kernel_params {
    const char *name;
    const char *why; /* NULL, or why the parameters are unknown: static words */
    void *func;      /* for whoever keeps the table: the driver's handle, or NULL */
    uint32_t order;  /* of coming */
    uint32_t n_params;
    uint32_t param_bytes; /* up to the end of the last one */
    struct kernel_param params[];
};

struct kernel_params_set {
    struct kernel_params **all;
    size_t n;
    size_t cap;
    bool sorted;
};

/* A kernel and its parameters in order; @why as in the struct, and if the parameters
 * make no sense, that is the reason.  -E2BIG: one too many; -ENOMEM. */
int kernel_params_add(struct kernel_params_set *all, const char *name, size_t name_len,
                      const struct kernel_param *params, uint32_t n_params,
                      const char *why, struct gp_err *err);

/* The kernel @name, or NULL.  One that came twice must have come with the same
 * parameters, or it cannot be told. */
struct kernel_params *kernel_params_find(struct kernel_params_set *all,
                                         const char *name);

/* Frees the kernels; @all is the caller's. */
void kernel_params_fini(struct kernel_params_set *all);

/* Add the kernels of a PTX text, of machine code, of whatever @image is.  An error
 * (-EINVAL, -E2BIG, -ENOMEM) means that not all could be read, and says why; what was
 * read before stays.  @sm: the card's compute capability (86), by which a fat binary's
 * entries are chosen. */
int kernel_params_ptx(const char *text, size_t len, unsigned sm,
                      struct kernel_params_set *all, struct gp_err *err);
int kernel_params_elf(const void *image, size_t len, struct kernel_params_set *all,
                      struct gp_err *err);
int kernel_params_image(const void *image, size_t len, unsigned sm,
                        struct kernel_params_set *all, struct gp_err *err);

#endif
