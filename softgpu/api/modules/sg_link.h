/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking: several PTX texts in, one image out.
 *
 * The image is PTX text again: the inputs one after the other, with a comment
 * line in front of each that says how long it is, so that it passes through
 * everything that passes PTX on.  Loading it parses and links the parts.
 *
 * No lock; pure functions over the caller's memory.
 */
#ifndef SG_LINK_H
#define SG_LINK_H

#include "gp_base.h"

#include <stddef.h>

struct gp_err;
struct ptx_module;

/* True when @text, of @len bytes, is such an image. */
bool sg_link_is_image(const char *text, size_t len);
/* -EINVAL: broken; else as ptx_parse() and ptx_link(). */
int sg_link_parse(const char *text, size_t len, struct ptx_module **ret,
                  struct gp_err *err);

#endif
