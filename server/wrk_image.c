/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_image.h"

#include "gp_err.h"
#include "gp_image.h"
#include "gp_log.h"
#include "wrk_bulk.h"
#include "wrk_call.h"

#include <string.h>

static CUresult
receive(struct wrk *w, struct wrk_reply *rep, struct wrk_image *image,
        const uint8_t *inside, uint64_t len)
{
    if (len == 0 || len > WRK_IMAGE_MAX)
        return CUDA_ERROR_INVALID_IMAGE;
    image->bytes = malloc(len + 1);
    if (!image->bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    image->bytes[len] = 0; /* the end of a PTX text */
    if (inside)
        memcpy(image->bytes, inside, len);
    else if (rep->bulk != len || wrk_bulk_take(w, rep, image->bytes) < 0)
        return CUDA_ERROR_INVALID_IMAGE;
    return CUDA_SUCCESS;
}

/* One image must fill its bytes and must not be a wrapper: that is pointers. */
static CUresult
check_one(const uint8_t *bytes, uint64_t len)
{
    struct gp_err err = {0};
    struct gp_image found;
    int r = gp_image_measure(bytes, len, &found, &err);

    if (r < 0 || found.kind == GP_IMAGE_WRAPPER) {
        gp_log_warn("image", "refused: %s",
                    r < 0 ? gp_err_msg(&err, r) : "a wrapper, which is only pointers");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    return CUDA_SUCCESS;
}

/* Pieces: the linked image, then each unit's own; the driver gets a wrapper of the
 * second version around them. */
static CUresult
wrap(struct wrk_image *image, uint64_t len, const unsigned long long *parts,
     uint32_t n_parts)
{
    uint64_t at = 0;

    if (n_parts >= ARRAY_SIZE(image->parts))
        return CUDA_ERROR_INVALID_IMAGE;
    for (uint32_t i = 0; i < n_parts; i++) {
        CUresult r;

        if (parts[i] > len - at)
            return CUDA_ERROR_INVALID_IMAGE;
        r = check_one(image->bytes + at, parts[i]);
        if (r != CUDA_SUCCESS)
            return r;
        image->parts[i] = image->bytes + at;
        at += parts[i];
    }
    if (at != len)
        return CUDA_ERROR_INVALID_IMAGE;
    image->parts[n_parts] = NULL;
    image->wrapper.magic = GP_IMAGE_WRAPPER_MAGIC;
    image->wrapper.version = 2;
    image->wrapper.data = image->parts[0];
    image->wrapper.parts = image->parts + 1;
    image->code = &image->wrapper;
    return CUDA_SUCCESS;
}

CUresult
wrk_image_take(struct wrk *w, struct wrk_reply *rep, struct wrk_image *image,
               const uint8_t *inside, uint64_t len, const unsigned long long *parts,
               uint32_t n_parts)
{
    CUresult r = receive(w, rep, image, inside, len);

    if (r != CUDA_SUCCESS)
        return r;
    if (n_parts)
        return wrap(image, len, parts, n_parts);
    image->code = image->bytes;
    return check_one(image->bytes, len);
}

void
wrk_image_fini(struct wrk_image *image)
{
    free(image->bytes);
}
