/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a device code image ends.  The driver API hands images over as a bare
 * pointer; the client stub must know how many bytes to send, and softgpu how
 * many it may read.  Both ask here.
 *
 * Pure functions over somebody else's memory: nothing is owned, any thread.
 * With a bound (the bytes came from a peer) nothing behind it is read.  Without
 * one (GP_IMAGE_UNBOUNDED: a pointer of our own process's application) the
 * caps below bound what is believed.  Nothing is decoded here.
 */
#ifndef GP_IMAGE_H
#define GP_IMAGE_H

#include "gp_base.h"

struct gp_err;

#define GP_IMAGE_UNBOUNDED SIZE_MAX

/* Largest image: the biggest single fat binary of a published library measured
 * about 700 MiB; PTX positions in softgpu need to fit 30 bits. */
#define GP_IMAGE_MAX_BYTES ((size_t)2 << 30)
#define GP_IMAGE_MAX_PTX ((size_t)1 << 30)
/* Translation units in a device-link wrapper: one pointer each; large projects
 * have a few thousand. */
#define GP_IMAGE_MAX_PARTS 65536

#define GP_IMAGE_WRAPPER_MAGIC 0x466243b1u
#define GP_IMAGE_FATBIN_MAGIC 0xba55ed50u

enum gp_image_kind {
    GP_IMAGE_PTX,     /* text up to a NUL, which is not counted */
    GP_IMAGE_FATBIN,  /* header and entries */
    GP_IMAGE_ELF,     /* cubin: machine code */
    GP_IMAGE_WRAPPER, /* pointers to the others; never leaves the process as it is */
};

struct gp_image {
    enum gp_image_kind kind;
    const void *data;
    size_t len;
};

/* What kind of image lies at @data and how long it is.  A wrapper measures
 * itself (24 bytes); gp_image_unwrap() looks behind it.
 * -EINVAL: no image, or a broken header.  -E2BIG: beyond a cap or @bound. */
int gp_image_measure(const void *data, size_t bound, struct gp_image *ret,
                     struct gp_err *err);

/* What a wrapper of this process points to. */
struct gp_image_wrapper {
    uint32_t version;         /* 1, or 2 after a device link */
    struct gp_image image;    /* what the data pointer names */
    const void *const *parts; /* version 2: each unit's own relocatable image */
    size_t n_parts;           /* measure each with gp_image_measure() */
};

/* -EINVAL: @data is no wrapper of a version we know, or points to none. */
int gp_image_unwrap(const void *data, struct gp_image_wrapper *ret, struct gp_err *err);

#endif
