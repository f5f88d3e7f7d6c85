/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_images.h"

#include "gp_file.h"
#include "gp_log.h"
#include "srv_disposal.h"
#include "srv_keeper.h"
#include "srv_kept.h"
#include "wrk_request.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* What makes mapping it safe: it can neither change nor shrink below anybody. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

/* What outlives the supervisor, beside the file. */
struct image_kept {
    struct srv_kept_head head;
    struct wire_image_id id;
    uint64_t session;
    uint64_t owner; /* zero of a version that did not keep it */
};
SRV_KEPT_SIZE(struct image_kept, 96);

/* Who has brought images that are here. */
struct owner {
    struct owner *next;
    uint64_t hash; /* of the name */
    uint64_t bytes;
    uint32_t count;
};

struct image {
    struct image *prev, *next; /* a ring through the head: next is younger */
    struct wire_image_id id;
    uint64_t size; /* of the file */
    uint64_t session;
    struct owner *owner;
    uint64_t key; /* the keeper's name of it */
    int fd;
};

struct srv_images {
    struct image head;
    struct owner *owners;
    uint64_t limit;
    struct srv_images_stats stats;
    struct srv_keeper *keeper;
    uint64_t *next_key;
    struct srv_disposal *disposal;
};

int
srv_images_new(uint64_t limit, struct srv_images **ret)
{
    struct srv_images *images = calloc(1, sizeof(*images));

    if (!images)
        return -ENOMEM;
    images->head.prev = images->head.next = &images->head;
    images->limit = limit;
    *ret = images;
    return 0;
}

static void
ring_out(struct image *image)
{
    image->prev->next = image->next;
    image->next->prev = image->prev;
}

static void
ring_in_youngest(struct srv_images *images, struct image *image)
{
    image->prev = images->head.prev;
    image->next = &images->head;
    image->prev->next = image;
    image->next->prev = image;
}

/* NULL: no memory. */
static struct owner *
owner_get(struct srv_images *images, uint64_t hash)
{
    struct owner *owner = images->owners;

    while (owner && owner->hash != hash)
        owner = owner->next;
    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner)
        return NULL;
    *owner = (struct owner){.next = images->owners, .hash = hash};
    images->owners = owner;
    return owner;
}

static void
owner_let_go(struct srv_images *images, struct owner *owner, uint64_t size)
{
    struct owner **at = &images->owners;

    owner->bytes -= size;
    if (--owner->count)
        return;
    while (*at != owner)
        at = &(*at)->next;
    *at = owner->next;
    free(owner);
}

static void
image_drop(struct srv_images *images, struct image *image)
{
    ring_out(image);
    images->stats.count--;
    images->stats.bytes -= image->size;
    owner_let_go(images, image->owner, image->size);
    srv_keeper_drop(images->keeper, SRV_KEEP_IMAGE, image->key, 0);
    srv_disposal_fd(images->disposal, image->fd);
    free(image);
}

void
srv_images_free(struct srv_images *images)
{
    if (!images)
        return;
    images->keeper = NULL; /* a successor may use them */
    while (images->head.next != &images->head)
        image_drop(images, images->head.next);
    free(images);
}

/* The youngest image of that name older than @before, or of all with NULL.  Two exist
 * only if a worker that was taken over sent a wrong one. */
static struct image *
image_named(struct srv_images *images, const uint8_t name[GP_BLAKE3_SIZE],
            const struct image *before)
{
    struct image *i = before ? before->prev : images->head.prev;

    while (i != &images->head && memcmp(i->id.name, name, GP_BLAKE3_SIZE) != 0)
        i = i->prev;
    return i == &images->head ? NULL : i;
}

static bool
proof_holds(const struct image *image, const uint8_t proof[GP_BLAKE3_SIZE],
            const uint8_t nonce[WIRE_IMAGE_NONCE])
{
    uint8_t right[GP_BLAKE3_SIZE];

    wire_image_prove(image->id.secret, nonce, right);
    return wire_image_same(right, proof);
}

int
srv_images_find(struct srv_images *images, const uint8_t name[GP_BLAKE3_SIZE],
                const uint8_t proof[GP_BLAKE3_SIZE],
                const uint8_t nonce[WIRE_IMAGE_NONCE], uint64_t session, bool *ret_own)
{
    struct image *image = image_named(images, name, NULL);
    bool named = image != NULL;

    while (image && !proof_holds(image, proof, nonce))
        image = image_named(images, name, image);
    if (!image) {
        images->stats.misses++;
        images->stats.refused += named;
        return -1;
    }
    ring_out(image);
    ring_in_youngest(images, image);
    images->stats.hits++;
    images->stats.saved += image->size - WRK_REQUEST_IMAGE_TAIL;
    *ret_own = image->session == session;
    return image->fd;
}

/* The size of a file that may be kept, else 0. */
static uint64_t
file_size(const struct srv_images *images, int fd)
{
    struct stat st;

    if (!gp_file_sealed(fd, SEALS) || fstat(fd, &st) < 0)
        return 0;
    if ((uint64_t)st.st_size < WIRE_IMAGE_NAMED_MIN + WRK_REQUEST_IMAGE_TAIL ||
        (uint64_t)st.st_size > images->limit)
        return 0;
    return (uint64_t)st.st_size;
}

/* Who has most, by bytes or by number, once @newcomer has one more of @size. */
static const struct owner *
owner_of_most(const struct srv_images *images, bool by_number, uint64_t newcomer,
              uint64_t size)
{
    const struct owner *most = NULL;
    uint64_t has_most = 0;

    for (const struct owner *o = images->owners; o; o = o->next) {
        uint64_t has = by_number ? o->count : o->bytes;

        if (o->hash == newcomer)
            has += by_number ? 1 : size;
        if (has > has_most) {
            has_most = has;
            most = o;
        }
    }
    return most;
}

/* So nobody who brings ever more images can have those of others sent anew each time.
 */
static void
evict(struct srv_images *images, uint64_t newcomer, uint64_t size)
{
    const struct owner *owner =
        owner_of_most(images, images->stats.count >= SRV_IMAGES_MAX, newcomer, size);
    struct image *image = images->head.next;

    while (image->owner != owner)
        image = image->next;
    image_drop(images, image);
    images->stats.evicted++;
}

static void
make_room(struct srv_images *images, uint64_t newcomer, uint64_t size)
{
    while (images->stats.count >= SRV_IMAGES_MAX ||
           images->stats.bytes > images->limit - size)
        evict(images, newcomer, size);
}

/* The same content again replaces the older image: if that was wrong, the worker that
 * detected it sends the right one. */
static void
drop_same(struct srv_images *images, const struct wire_image_id *id)
{
    struct image *image = image_named(images, id->name, NULL);

    while (image && memcmp(&image->id, id, sizeof(*id)) != 0)
        image = image_named(images, id->name, image);
    if (image)
        image_drop(images, image);
}

static void
image_leave(struct srv_images *images, struct image *image)
{
    struct image_kept *kept;
    CLEANUP_FD int fd = -1;
    void *map = NULL;

    if (!images->keeper ||
        srv_kept_new(SRV_KEPT_IMAGE, sizeof(*kept), &fd, &map, NULL) < 0)
        return;
    kept = map;
    kept->id = image->id;
    kept->session = image->session;
    kept->owner = image->owner->hash;
    image->key = (*images->next_key)++;
    srv_keeper_put(images->keeper, SRV_KEEP_IMAGE, image->key, 0,
                   (int[]){fd, image->fd}, 2);
    srv_kept_unmap(map, sizeof(*kept));
}

static struct image *
image_enter(struct srv_images *images, const struct wire_image_id *id, int fd,
            uint64_t size, uint64_t session, uint64_t owner_hash)
{
    struct image *image = malloc(sizeof(*image));
    struct owner *owner;

    if (!image)
        return NULL;
    drop_same(images, id);
    make_room(images, owner_hash, size);
    owner = owner_get(images, owner_hash);
    if (!owner) {
        free(image);
        return NULL;
    }
    *image = (struct image){
        .id = *id, .size = size, .session = session, .owner = owner, .fd = fd};
    ring_in_youngest(images, image);
    images->stats.count++;
    images->stats.bytes += size;
    owner->count++;
    owner->bytes += size;
    return image;
}

/* @fd is ours; NULL: it may not be kept. */
static struct image *
image_take(struct srv_images *images, const struct wire_image_id *id, int fd,
           uint64_t session, uint64_t owner)
{
    uint64_t size = file_size(images, fd);
    struct image *image =
        size ? image_enter(images, id, fd, size, session, owner) : NULL;

    images->stats.refused += !size;
    if (!image)
        srv_disposal_fd(images->disposal, fd); /* whatever it is */
    return image;
}

void
srv_images_keep(struct srv_images *images, const struct wire_image_id *id, int fd,
                uint64_t session, uint64_t owner)
{
    struct image *image = image_take(images, id, fd, session, owner);

    if (image)
        image_leave(images, image);
}

void
srv_images_use_keeper(struct srv_images *images, struct srv_keeper *keeper,
                      uint64_t *next_key)
{
    images->keeper = keeper;
    images->next_key = next_key;
}

void
srv_images_use_disposal(struct srv_images *images, struct srv_disposal *disposal)
{
    images->disposal = disposal;
}

void
srv_images_adopt(struct srv_images *images, uint64_t key, struct srv_keep_fds *fds)
{
    const struct image_kept *kept;
    struct image *image = NULL;
    void *map = NULL;

    if (fds->n >= 2 &&
        srv_kept_map(fds->fd[0], SRV_KEPT_IMAGE, sizeof(*kept), &map) == 0) {
        kept = map;
        image = image_take(images, &kept->id, TAKE_FD(fds->fd[1]), kept->session,
                           kept->owner);
        srv_kept_unmap(map, sizeof(*kept));
    }
    if (image)
        image->key = key;
    else
        srv_keeper_drop(images->keeper, SRV_KEEP_IMAGE, key, 0);
}

const struct srv_images_stats *
srv_images_stats(const struct srv_images *images)
{
    return &images->stats;
}
