/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device code of the application: where an image ends, and its name.
 *
 * The bytes are sent from where they are, in as many chunks as a linked wrapper names,
 * unless the name is enough because the server's host has the image already.  Alive for
 * one call, on its stack; any thread.
 */
#ifndef STUB_IMAGE_H
#define STUB_IMAGE_H

#include "cuda_abi.h"
#include "wire_image.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define STUB_IMAGE_CHUNKS 64 /* the wire's cap */

/* An image in chunks; lengths beside it as the wire wants them. */
struct stub_image {
    struct iovec chunk[STUB_IMAGE_CHUNKS];
    uint64_t len[STUB_IMAGE_CHUNKS];
    uint32_t n_chunks;
    uint32_t n_parts; /* chunks of a linked wrapper, 0 for a plain image */
    uint64_t total;
};

/* Find the chunks of what @data points to. */
CUresult stub_image_open(struct stub_image *image, const void *data);

/* Its name, if sending that first is worth hashing the image: only over transports
 * where bytes cost more than hashing them (XPORT_CAN_NAME). */
bool stub_image_name(const struct stub_image *image, struct wire_image_ref *ret);

/* The same for what a linker is given. */
bool stub_image_name_input(const void *data, uint64_t size, struct wire_image_ref *ret);

#endif
