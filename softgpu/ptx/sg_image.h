/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an image as the driver API gets it (PTX text, fat binary, wrapper,
 * cubin) to PTX that can run on a card of a given compute capability, and on
 * to a parsed module.
 *
 * Results are the caller's; the image is only read and need not outlive the
 * call.  Any thread.  It runs no machine code: an image without fitting PTX is
 * refused with the words a user needs to get one.
 */
#ifndef SG_IMAGE_H
#define SG_IMAGE_H

#include "gp_base.h"
#include "gp_image.h"

struct gp_err;
struct ptx_module;

/* Decompressed PTX of one entry.  Text compresses at most about 60:1 with the
 * modules seen; a claim beyond the ratio is an attack, not a module. */
#define SG_IMAGE_MAX_RATIO 1000
#define SG_IMAGE_MAX_ENTRIES 65536 /* of one fat binary; the largest had 1,800 */

enum sg_entry_kind { SG_ENTRY_PTX = 1, SG_ENTRY_ELF = 2, SG_ENTRY_LTO = 8 };

enum sg_packing { SG_PACKING_NONE, SG_PACKING_LZ4, SG_PACKING_ZSTD };

/* One entry of a fat binary; pointers into the image. */
struct sg_image_entry {
    uint16_t kind; /* enum sg_entry_kind, or a number we do not know */
    uint16_t version_major;
    uint16_t version_minor;
    uint32_t sm; /* 86 */
    uint64_t flags;
    bool arch_specific;   /* sm_90a: this sm and no other   */
    bool family_specific; /* sm_100f: same major, >= minor  */
    enum sg_packing packing;
    const uint8_t *data;
    uint64_t len;     /* packed bytes */
    uint64_t raw_len; /* unpacked bytes */
};

/* Walk a fat binary of exactly @len bytes: *pos starts at 0.  1: *ret is the
 * next entry; 0: there are no more; -EINVAL, -E2BIG: broken. */
int sg_image_next(const void *fatbin, size_t len, size_t *pos,
                  struct sg_image_entry *ret, struct gp_err *err);

/* The entry's payload, unpacked, NUL-terminated (not counted), to be freed. */
int sg_image_unpack(const struct sg_image_entry *entry, char **ret, size_t *ret_len,
                    struct gp_err *err);

/* The PTX of @image that suits compute capability @sm (86 for 8.6) best: the
 * highest that is not above it.  Wrappers are followed when @bound is
 * GP_IMAGE_UNBOUNDED only.
 * -ENOEXEC: no PTX that this card can use (CUDA_ERROR_NO_BINARY_FOR_GPU); the
 *  words name what the image holds and how to get PTX.
 * -EINVAL, -E2BIG, -ENOMEM: broken image, cap, memory. */
int sg_image_ptx(const void *image, size_t bound, unsigned sm, char **ret,
                 size_t *ret_len, struct gp_err *err);

/* All the way: find, unpack, parse; the parts of a device-link wrapper are
 * linked into one module.  Errors as above; -EINVAL also for PTX that does not
 * parse (err says line and column). */
int sg_image_parse(const void *image, size_t bound, unsigned sm,
                   struct ptx_module **ret, struct gp_err *err);

#endif
