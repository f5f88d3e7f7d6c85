/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More connections to a server that is far away, for bulk data.
 *
 *   GPUPOOL_CONNECTIONS=auto|N
 *
 * auto: once a link has moved some MiB, a thread of our own measures its round trip;
 * where that is long it makes more connections and lets the transport find out whether
 * they are faster.  N: that many in all (1: no more), without measuring first.
 */
#ifndef STUB_STRIPES_H
#define STUB_STRIPES_H

#include <stdint.h>

struct stub_feature;

/* Counts payloads until it knows (stub_hooks.h). */
extern const struct stub_feature stub_stripes_feature;

/* Read GPUPOOL_CONNECTIONS; -EINVAL: it says nothing that it may. */
int stub_stripes_settings(void);

#endif
