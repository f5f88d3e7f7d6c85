/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming a device code image by its content, so that it is sent to a host once.
 *
 * Where a load call carries an image inside its frame, it may carry a struct
 * wire_image_ref instead, if the attach reply gave a nonce.  A worker that has no such
 * image answers WIRE_RESULT_WANT_IMAGE and nothing has happened; the client then makes
 * the call again with the image.
 *
 * The name alone gives nobody anything: it travels, and may be known without the
 * content.  The proof needs 32 bytes more that only whoever hashed the content has and
 * that never travel, tied to this attachment by its nonce, so that a proof that was
 * overheard is worth nothing elsewhere.  Pure functions, any thread.
 */
#ifndef WIRE_IMAGE_H
#define WIRE_IMAGE_H

#include "gp_blake3.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Images below this size are sent: naming them saves less than asking twice costs. */
#define WIRE_IMAGE_NAMED_MIN (64u * 1024)

#define WIRE_IMAGE_NONCE 32
#define WIRE_IMAGE_REF_MAGIC 0x72697067u /* "gpir": no image begins so */

/* What is known to whoever has the content. */
struct wire_image_id {
    uint8_t name[GP_BLAKE3_SIZE];
    uint8_t secret[GP_BLAKE3_SIZE];
};

/* In place of the image's bytes in a load call. */
struct wire_image_ref {
    uint32_t magic; /* WIRE_IMAGE_REF_MAGIC */
    uint32_t zero;
    uint64_t len; /* of all pieces together */
    uint8_t name[GP_BLAKE3_SIZE];
    uint8_t proof[GP_BLAKE3_SIZE];
};

static_assert(sizeof(struct wire_image_id) == GP_BLAKE3_WIDE, "wide hash");
static_assert(sizeof(struct wire_image_ref) == 80, "wire layout");

/* @n > 0 pieces; where one ends and the next begins matters. */
void wire_image_identify(const struct iovec *pieces, size_t n,
                         struct wire_image_id *ret);

/* The proof that who makes it has the image that @secret is of, for one attachment's
 * @nonce. */
void wire_image_prove(const uint8_t secret[GP_BLAKE3_SIZE],
                      const uint8_t nonce[WIRE_IMAGE_NONCE],
                      uint8_t ret[GP_BLAKE3_SIZE]);

/* Equal?  In a time that does not tell where they differ. */
bool wire_image_same(const uint8_t a[GP_BLAKE3_SIZE], const uint8_t b[GP_BLAKE3_SIZE]);

#endif
