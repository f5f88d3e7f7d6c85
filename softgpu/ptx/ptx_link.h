/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several parsed modules become one: what cuLinkComplete() does with PTX, and
 * what the parts of a device-link wrapper (nvcc -rdc=true) need.
 *
 * The result shares the syntax trees of its inputs: they become its parts and
 * are freed with it.  One thread while linking; read-only afterwards.
 */
#ifndef PTX_LINK_H
#define PTX_LINK_H

#include <stdint.h>

struct gp_err;
struct ptx_module;

/* Inputs of one link; a project's translation units, one each. */
#define PTX_LINK_MAX_INPUTS 65536

/* Link mods[0..n).  On success *ret owns all of them and the array's slots are
 * NULL; on failure the caller still owns them all, unchanged.
 *
 * -EEXIST: two strong definitions of one name.  -EINVAL: one name declared as
 * two different things, or different address sizes.  -ENOENT: an .extern that
 * nobody defines, other than the device runtime's (vprintf, malloc, free,
 * __assertfail, cudaGraphSetConditional, launches) and dynamic .shared.  @err names
 * symbol and module. */
int ptx_link(struct ptx_module **mods, uint32_t n, struct ptx_module **ret,
             struct gp_err *err);

#endif
