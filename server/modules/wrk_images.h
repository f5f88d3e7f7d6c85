/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's access to the image cache of the supervisor (srv_images.h).
 *
 * A look-up runs on the receive thread and takes one round trip to the supervisor's
 * loop.  A received image is hashed, sealed and handed over by a thread of its own, so
 * that the client's next call does not wait for it.
 */
#ifndef WRK_IMAGES_H
#define WRK_IMAGES_H

#include "wire_image.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* Pieces of a linked program: the wire's cap. */
#define WRK_IMAGE_PIECES 64

/* Images that wait to be handed over; one more than this is not kept. */
#define WRK_IMAGES_PENDING 16
#define WRK_IMAGES_PENDING_BYTES (UINT64_C(512) << 20)

/* Behind the image and its NUL: what its variables take of a card, so that the next
 * process need not read the image for it.  @sm 0: nobody has. */
struct wrk_images_note {
    uint64_t sm; /* the card's compute capability; of pieces, with bit 32 */
    uint64_t bytes;
};

/* An empty memory file for @len bytes, to be given to wrk_images_keep(); -1. */
int wrk_images_file(uint64_t len);

/* The file of the image that @ref names, the caller's: @ref->len bytes and a NUL, which
 * nobody can change, and in most cases a note.  @ret_own: what it holds is known to be
 * what its name says.  -1:
 * not here, not as it should be, or the proof is wrong. */
int wrk_images_find(struct wrk *w, const struct wire_image_ref *ref, bool *ret_own);

/* Hand over @fd, which is not mapped anywhere, with an image of @len bytes in @n pieces
 * that end where @pieces says (none: one piece). */
void wrk_images_keep(int fd, uint64_t len, const unsigned long long *pieces,
                     uint32_t n);

/* Before the process ends: what waits has been handed over. */
void wrk_images_finish(void);

#endif
