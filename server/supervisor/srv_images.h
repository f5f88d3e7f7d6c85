/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of device code images that this host has seen, so that the next process
 * need not send them: sealed memory files by the name of their content.  What is
 * evicted is of the owner whose sessions have brought most that is here, least recently
 * used first.
 *
 * Shared by all sessions.  A worker gets an image only with a proof, tied to its
 * attachment, that its client has the content (wire_image.h), and it hashes an image
 * that another session brought before use: so a session can neither read, nor replace,
 * nor look for an image that it does not have itself.  How fast a load is shows that
 * another session has the same content; an operator who minds that turns the cache off.
 *
 * Everything is in this process and in memory files, so a killed process leaves nothing
 * half done.  Owned by the supervisor, event-loop thread only.
 */
#ifndef SRV_IMAGES_H
#define SRV_IMAGES_H

#include "gp_base.h"
#include "wire_image.h"

struct srv_disposal;
struct srv_images;
struct srv_keep_fds;
struct srv_keeper;

/* A descriptor each; a framework loads some hundred images of this size. */
#define SRV_IMAGES_MAX 1024

/* Without --image-cache. */
#define SRV_IMAGES_BYTES (UINT64_C(1) << 30)

struct srv_images_stats {
    uint64_t hits, misses, refused, evicted; /* refused: a wrong proof, a bad file */
    uint64_t saved;                          /* bytes that were not sent */
    uint64_t bytes;                          /* held now */
    uint32_t count;
};

/* From now on, leave each image with @keeper, by a number from *next_key on. */
void srv_images_use_keeper(struct srv_images *images, struct srv_keeper *keeper,
                           uint64_t *next_key);
/* From now on, have @disposal close files, which frees all of their memory. */
void srv_images_use_disposal(struct srv_images *images, struct srv_disposal *disposal);
/* One of a supervisor that is gone, from its two descriptors at the keeper, where it
 * has the number @key; those not taken stay the caller's. */
void srv_images_adopt(struct srv_images *images, uint64_t key,
                      struct srv_keep_fds *fds);

/* At most @limit bytes, 0: none at all. */
int srv_images_new(uint64_t limit, struct srv_images **ret);
void srv_images_free(struct srv_images *images); /* NULL is a no-op */

/* The image called @name, for whoever proves with @nonce to have it; *ret_own: session
 * @session brought it.  The descriptor stays ours; -1: there is none. */
int srv_images_find(struct srv_images *images, const uint8_t name[GP_BLAKE3_SIZE],
                    const uint8_t proof[GP_BLAKE3_SIZE],
                    const uint8_t nonce[WIRE_IMAGE_NONCE], uint64_t session,
                    bool *ret_own);

/* Take @fd over, a sealed memory file with the image and a NUL, brought by @session of
 * @owner, the hash of a name.  With a fixed key: it is kept for a successor. */
void srv_images_keep(struct srv_images *images, const struct wire_image_id *id, int fd,
                     uint64_t session, uint64_t owner);

const struct srv_images_stats *srv_images_stats(const struct srv_images *images);

#endif
