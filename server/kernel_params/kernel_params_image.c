/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of an image of any kind.
 *
 * A fat binary holds the same source for several GPUs.  A kernel's parameters are the
 * same in all of them, except where alignments differ between GPUs.  So the entry that
 * a driver would choose for the GPU is read; if none fits, or it cannot be read, all
 * entries are read, and parameters on which they disagree are unknown.
 */
#include "gp_err.h"
#include "gp_fatbin.h"
#include "gp_image.h"
#include "kernel_params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
read_entry(const struct gp_fatbin_entry *entry, unsigned sm,
           struct kernel_params_set *all, struct gp_err *err)
{
    CLEANUP_FREE char *bytes = NULL;
    size_t len;
    int r;

    if (entry->kind != GP_FATBIN_PTX && entry->kind != GP_FATBIN_ELF)
        return 0;
    r = gp_fatbin_unpack(entry, &bytes, &len, err);
    if (r < 0)
        return r;
    return entry->kind == GP_FATBIN_PTX
               ? kernel_params_ptx(bytes, strnlen(bytes, len), sm, all, err)
               : kernel_params_elf(bytes, len, all, err);
}

/* Machine code is there to be run; PTX if there is none. */
static bool
better(const struct gp_fatbin_entry *a, const struct gp_fatbin_entry *b)
{
    if (a->kind != b->kind)
        return a->kind == GP_FATBIN_ELF;
    return gp_fatbin_better(a, b);
}

static bool
same_target(const struct gp_fatbin_entry *a, const struct gp_fatbin_entry *b)
{
    return a->kind == b->kind && a->sm == b->sm &&
           a->arch_specific == b->arch_specific &&
           a->family_specific == b->family_specific;
}

/* The best entry for @sm; kind 0 when none is for it. */
static int
choose(const struct gp_image *fatbin, unsigned sm, struct gp_fatbin_entry *ret,
       struct gp_err *err)
{
    struct gp_fatbin_entry entry;
    size_t pos = 0;
    unsigned n = 0;
    int r;

    *ret = (struct gp_fatbin_entry){0};
    while ((r = gp_fatbin_next(fatbin->data, fatbin->len, &pos, &entry, err)) == 1) {
        if (++n > GP_FATBIN_MAX_ENTRIES)
            return gp_err_set(err, -E2BIG, "fat binary with more than %d entries",
                              GP_FATBIN_MAX_ENTRIES);
        if (gp_fatbin_fits(&entry, sm) && (!ret->kind || better(&entry, ret)))
            *ret = entry;
    }
    return r;
}

/* The entries for @target, or all with NULL.  One that cannot be read does not keep the
 * others from being read, unless what all claim to unpack to is too much. */
static int
read_entries(const struct gp_image *fatbin, const struct gp_fatbin_entry *target,
             unsigned sm, struct kernel_params_set *all, struct gp_err *err)
{
    struct gp_fatbin_entry entry;
    uint64_t left = KERNEL_PARAMS_UNPACKED_MAX;
    size_t pos = 0;
    int first = 0;

    while (gp_fatbin_next(fatbin->data, fatbin->len, &pos, &entry, NULL) == 1) {
        struct gp_err why = {0};
        int r;

        if (target && !same_target(&entry, target))
            continue;
        if (entry.raw_len > left)
            return gp_err_set(err, -E2BIG,
                              "a fat binary claims to unpack to more "
                              "than %u MiB",
                              (unsigned)(KERNEL_PARAMS_UNPACKED_MAX >> 20));
        left -= entry.raw_len;
        r = read_entry(&entry, sm, all, &why);
        if (r < 0 && first == 0)
            first = gp_err_set(err, r, "%s", gp_err_msg(&why, r));
    }
    return first;
}

static int
read_fatbin(const struct gp_image *fatbin, unsigned sm, struct kernel_params_set *all,
            struct gp_err *err)
{
    struct gp_fatbin_entry best;
    int r = choose(fatbin, sm, &best, err);

    if (r < 0 || (best.kind && read_entries(fatbin, &best, sm, all, NULL) == 0))
        return r;
    return read_entries(fatbin, NULL, sm, all, err);
}

int
kernel_params_image(const void *data, size_t len, unsigned sm,
                    struct kernel_params_set *all, struct gp_err *err)
{
    struct gp_image image;
    int r = gp_image_measure(data, len, &image, err);

    if (r < 0)
        return r;
    switch (image.kind) {
    case GP_IMAGE_PTX:
        return kernel_params_ptx(image.data, image.len, sm, all, err);
    case GP_IMAGE_ELF:
        return kernel_params_elf(image.data, image.len, all, err);
    case GP_IMAGE_FATBIN:
        return read_fatbin(&image, sm, all, err);
    default:
        return gp_err_set(err, -EINVAL, "a wrapper of pointers is no image by itself");
    }
}
