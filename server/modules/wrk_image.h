/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device code image: received, or found in the cache by its name; measured, and put
 * together for the driver.
 *
 * A driver gets a bare pointer and finds the end of the image itself, so the image must
 * really end where the client said.  Lives for one call; drivers copy it.  Receive
 * thread only.
 */
#ifndef WRK_IMAGE_H
#define WRK_IMAGE_H

#include "cuda_abi.h"
#include "wrk_images.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iovec;
struct wrk;
struct wrk_reply;

/* Largest image of one call.  The biggest published fat binary measures some
 * 700 MiB; a client can make a worker hold this much for the time of a call. */
#define WRK_IMAGE_MAX (UINT64_C(1) << 30)

struct wrk_image {
    const void *code; /* for the driver */
    uint8_t *bytes;   /* malloc'ed, or of @file if @mapped */
    uint64_t len;
    bool mapped;
    bool wanted; /* the supervisor shall keep it */
    int file;    /* with @mapped */
    bool own;    /* the session itself has brought it */
    struct wrk_images_note note;
    struct {
        uint32_t magic, version;
        const void *data;
        const void *const *parts;
    } wrapper;
    const void *parts[WRK_IMAGE_PIECES + 2];
};

/* Receive the @len bytes of @rep's payload (or take @inside, or what that names), the
 * pieces of a linked program if @n_parts > 0.  CUDA_ERROR_INVALID_IMAGE: not what it
 * says.  WIRE_RESULT_WANT_IMAGE: named, and not here. */
CUresult wrk_image_take(struct wrk *w, struct wrk_reply *rep, struct wrk_image *image,
                        const uint8_t *inside, uint64_t len,
                        const unsigned long long *parts, uint32_t n_parts);

/* The same for a linker's input.  Objects and archives are the linker's to read, by the
 * length that it is given; images are measured, and a wrapper is refused as any type.
 */
CUresult wrk_image_take_input(struct wrk *w, struct wrk_reply *rep,
                              struct wrk_image *image, CUjitInputType type,
                              const uint8_t *inside, uint64_t len);

/* The images in it, one or the @n_parts of a linked program, into
 * @ret[WRK_IMAGE_PIECES]; returns how many.  Alive as long as @image. */
size_t wrk_image_pieces(const struct wrk_image *image, const unsigned long long *parts,
                        uint32_t n_parts, struct iovec *ret);

/* What the variables of all pieces take on a card of @sm, if a process found it before;
 * false: nobody has, or one of another session says that it is much.  Too little from
 * one that has been taken over only lets this session have more than it could have
 * had, which a worker that has been taken over can have anyway; too much would keep
 * this session from its programs. */
bool wrk_image_variables_known(const struct wrk_image *image, unsigned sm,
                               uint64_t *ret);
void wrk_image_variables_found(struct wrk_image *image, unsigned sm, uint64_t bytes);

/* A driver has loaded it: keep it for the next process, if its client named it. */
void wrk_image_keep(struct wrk_image *image, const unsigned long long *parts,
                    uint32_t n_parts);
void wrk_image_fini(struct wrk_image *image);

#endif
