/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_image.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_image.h"
#include "gp_log.h"
#include "stub_link.h"
#include "xport.h"

#include <errno.h>
#include <string.h>

static int
image_add(struct stub_image *image, const void *data, struct gp_err *err)
{
    struct gp_image one;
    int r = gp_image_measure(data, GP_IMAGE_UNBOUNDED, &one, err);

    if (r < 0)
        return r;
    if (one.len == 0)
        return gp_err_set(err, -EINVAL, "empty image");
    image->chunk[image->n_chunks] =
        (struct iovec){(void *)(uintptr_t)one.data, one.len};
    image->len[image->n_chunks++] = one.len;
    image->total += one.len;
    return 0;
}

/* The wrapper of a device-linked program lists each unit's own image, too.  If there
 * are more than a frame may list, only the linked image is sent: it is complete, and
 * the others are needed only for linking again. */
static int
image_add_wrapped(struct stub_image *image, const void *data, struct gp_err *err)
{
    struct gp_image_wrapper wrapper;
    int r = gp_image_unwrap(data, &wrapper, err);

    if (r >= 0)
        r = image_add(image, wrapper.image.data, err);
    if (r < 0 || wrapper.version < 2 || wrapper.n_parts >= STUB_IMAGE_CHUNKS)
        return r;
    for (size_t i = 0; i < wrapper.n_parts && r >= 0; i++)
        r = image_add(image, wrapper.parts[i], err);
    image->n_parts = wrapper.n_parts ? image->n_chunks : 0;
    return r;
}

CUresult
stub_image_open(struct stub_image *image, const void *data)
{
    struct gp_err err = {0};
    struct gp_image whole;
    int r;

    image->n_chunks = image->n_parts = 0;
    image->total = 0;
    r = gp_image_measure(data, GP_IMAGE_UNBOUNDED, &whole, &err);
    if (r >= 0)
        r = whole.kind == GP_IMAGE_WRAPPER ? image_add_wrapped(image, data, &err)
                                           : image_add(image, data, &err);
    if (r < 0) {
        gp_log_warn("stub", "device code: %s", gp_err_msg(&err, r));
        return CUDA_ERROR_INVALID_IMAGE;
    }
    return CUDA_SUCCESS;
}

/* ---- names ------------------------------------------------------------------ */

static bool
name_chunks(const struct iovec *chunks, size_t n, uint64_t total,
            struct wire_image_ref *ret)
{
    const struct stub_link *link = stub_link_here();
    const ProtobufCBinaryData *nonce = &link->attach->image_nonce;
    struct wire_image_id id;

    if (total < WIRE_IMAGE_NAMED_MIN || nonce->len != WIRE_IMAGE_NONCE ||
        !xport_can(link->conn, XPORT_CAN_NAME))
        return false;
    wire_image_identify(chunks, n, &id);
    *ret = (struct wire_image_ref){.magic = WIRE_IMAGE_REF_MAGIC, .len = total};
    memcpy(ret->name, id.name, sizeof(ret->name));
    wire_image_prove(id.secret, nonce->data, ret->proof);
    return true;
}

bool
stub_image_name(const struct stub_image *image, struct wire_image_ref *ret)
{
    return name_chunks(image->chunk, image->n_chunks, image->total, ret);
}

bool
stub_image_name_input(const void *data, uint64_t size, struct wire_image_ref *ret)
{
    struct iovec chunk = {(void *)(uintptr_t)data, size};

    return stub_link_can(stub_link_here(), "link-images") &&
           name_chunks(&chunk, 1, size, ret);
}
