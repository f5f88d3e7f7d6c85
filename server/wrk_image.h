/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device code image as it arrived: received, measured, put together for the
 * driver.
 *
 * A driver is given a bare pointer and finds the end itself, so what the client
 * sent must really end where it said.  Alive for one call; drivers copy.
 */
#ifndef WRK_IMAGE_H
#define WRK_IMAGE_H

#include "cuda_abi.h"

#include <stdint.h>

struct wrk;
struct wrk_reply;

/* Largest image of one call.  The biggest published fat binary measures some
 * 700 MiB; a client can make a worker hold this much for the time of a call. */
#define WRK_IMAGE_MAX (UINT64_C(1) << 30)

struct wrk_image {
    const void *code; /* for the driver */
    uint8_t *bytes;
    struct {
        uint32_t magic, version;
        const void *data;
        const void *const *parts;
    } wrapper;
    const void *parts[66];
};

/* Receive the @len bytes of @rep's payload (or take @inside), the pieces of a
 * linked program if @n_parts > 0.  CUDA_ERROR_INVALID_IMAGE: not what it says. */
CUresult wrk_image_take(struct wrk *w, struct wrk_reply *rep, struct wrk_image *image,
                        const uint8_t *inside, uint64_t len,
                        const unsigned long long *parts, uint32_t n_parts);
void wrk_image_fini(struct wrk_image *image);

#endif
