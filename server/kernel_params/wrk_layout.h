/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of kernels, read from the image that holds them.
 *
 * Drivers before 12.4 do not tell where a kernel's parameters lie, and a launch names
 * them by pointers only: whoever copies them must know offsets and sizes.  The image
 * says both: PTX in the declaration of each entry, machine code in records beside each
 * kernel.
 *
 * A struct wrk_layouts is its maker's, one thread at a time.  Images are hostile: caps
 * below, and what contradicts itself is kept as a kernel that cannot be told, with the
 * reason.  Nothing here asks a driver; wrk_kernels.h does.
 */
#ifndef WRK_LAYOUT_H
#define WRK_LAYOUT_H

#include "gp_base.h"

struct gp_err;

/* Of one image; the largest machine code seen held some 7,000. */
#define WRK_LAYOUT_KERNELS_MAX 262144u
/* Unpacked, of one fat binary: each entry is read and forgotten, so this is processor
 * time; the fat binaries of the largest published libraries hold less. */
#define WRK_LAYOUT_UNPACKED_MAX (UINT64_C(4) << 30)
/* Of one kernel: what the wire carries, and what a card takes since 12.1. */
#define WRK_LAYOUT_PARAMS_MAX 4096u
#define WRK_LAYOUT_BYTES_MAX 32764u

struct wrk_layout_param {
    uint32_t offset;
    uint32_t size;
};

struct wrk_layout {
    const char *name;
    const char *why; /* NULL, or why the parameters cannot be told: static words */
    void *func;      /* for whoever keeps the table: the driver's handle, or NULL */
    uint32_t order;  /* of coming */
    uint32_t n_params;
    uint32_t param_bytes; /* up to the end of the last one */
    struct wrk_layout_param params[];
};

struct wrk_layouts {
    struct wrk_layout **all;
    size_t n;
    size_t cap;
    bool sorted;
};

/* A kernel and its parameters in order; @why as in the struct, and if the parameters
 * make no sense, that is the reason.  -E2BIG: one too many; -ENOMEM. */
int wrk_layouts_add(struct wrk_layouts *all, const char *name, size_t name_len,
                    const struct wrk_layout_param *params, uint32_t n_params,
                    const char *why, struct gp_err *err);

/* The kernel @name, or NULL.  One that came twice must have come with the same
 * parameters, or it cannot be told. */
struct wrk_layout *wrk_layouts_find(struct wrk_layouts *all, const char *name);

void wrk_layouts_fini(struct wrk_layouts *all);

/* Add the kernels of a PTX text, of machine code, of whatever @image is.  An error
 * (-EINVAL, -E2BIG, -ENOMEM) means that not all could be read, and says why; what was
 * read before stays.  @sm: the card's compute capability (86), by which a fat binary's
 * entries are chosen. */
int wrk_layout_ptx(const char *text, size_t len, unsigned sm, struct wrk_layouts *all,
                   struct gp_err *err);
int wrk_layout_elf(const void *image, size_t len, struct wrk_layouts *all,
                   struct gp_err *err);
int wrk_layout_image(const void *image, size_t len, unsigned sm,
                     struct wrk_layouts *all, struct gp_err *err);

#endif
