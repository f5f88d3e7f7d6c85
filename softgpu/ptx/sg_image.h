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
