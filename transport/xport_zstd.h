/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libzstd, found at run time: the client library must not need more than libc.
 *
 * Only what works on whole blocks of known size: nothing here allocates by what a peer
 * says.  Loaded once per process, any thread.
 */
#ifndef XPORT_ZSTD_H
#define XPORT_ZSTD_H

#include <stdbool.h>
#include <stddef.h>

struct xport_zstd {
    void *(*cctx_new)(void);
    size_t (*cctx_free)(void *cctx);
    size_t (*compress)(void *cctx, void *dst, size_t cap, const void *src, size_t len,
                       int level);
    void *(*dctx_new)(void);
    size_t (*dctx_free)(void *dctx);
    size_t (*decompress)(void *dctx, void *dst, size_t cap, const void *src,
                         size_t len);
    unsigned (*is_error)(size_t result);
};

/* NULL where there is no libzstd. */
const struct xport_zstd *xport_zstd_get(void);

#endif
