/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_images.h"

#include "gp_base.h"
#include "gp_file.h"
#include "gp_log.h"
#include "wrk.h"
#include "wrk_conf.h"
#include "wrk_request.h"
#include "wrk_supervisor_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static_assert(sizeof(struct wrk_images_note) + 1 == WRK_REQUEST_IMAGE_TAIL,
              "what is behind an image");

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

struct pending {
    struct pending *next;
    int fd;
    uint64_t len;
    uint32_t n;
    unsigned long long pieces[WRK_IMAGE_PIECES];
};

/* The queue to the thread that hands over. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    struct pending *first, **last;
    unsigned count;
    uint64_t bytes;
    bool running;
} keep = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .more = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

int
wrk_images_file(uint64_t len)
{
    CLEANUP_FD int fd = memfd_create("gpupool-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)(len + 1 + sizeof(struct wrk_images_note))) < 0)
        return -1;
    return TAKE_FD(fd);
}

/* ---- asking ---- */

/* The file is sealed against changes, and has the length that the client sent; one that
 * an older worker left has no note. */
static bool
file_ok(int fd, uint64_t len)
{
    struct stat st;

    return gp_file_sealed(fd, SEALS) && fstat(fd, &st) == 0 &&
           ((uint64_t)st.st_size == len + 1 ||
            (uint64_t)st.st_size == len + 1 + sizeof(struct wrk_images_note));
}

int
wrk_images_find(struct wrk *w, const struct wire_image_ref *ref, bool *ret_own)
{
    struct wrk_request ask = {.kind = WRK_REQUEST_IMAGE};
    CLEANUP_FD int fd = -1;
    int r;

    if (!w->priv->conf.images)
        return -1;
    memcpy(ask.name, ref->name, sizeof(ask.name));
    memcpy(ask.secret, ref->proof, sizeof(ask.secret));
    r = wrk_supervisor_ask(&ask, -1, &fd);
    if (r < 0 || ask.kind != WRK_REQUEST_IMAGE) {
        gp_log_warn("image", "the supervisor does not answer: %s", strerror(-r));
        return -1;
    }
    if (fd < 0 || !file_ok(fd, ref->len))
        return -1;
    *ret_own = ask.own;
    return TAKE_FD(fd);
}

/* ---- handing over ---- */

static void
identify(const struct pending *p, uint8_t *bytes, struct wire_image_id *ret)
{
    struct iovec pieces[WRK_IMAGE_PIECES];
    uint64_t at = 0;

    pieces[0] = (struct iovec){bytes, p->len};
    for (uint32_t i = 0; i < p->n; i++) {
        pieces[i] = (struct iovec){bytes + at, p->pieces[i]};
        at += p->pieces[i];
    }
    wire_image_identify(pieces, gp_max(p->n, 1u), ret);
}

/* The name is computed here, from what is sealed: a client's word is not taken. */
static void
hand_over(const struct pending *p)
{
    struct wrk_request ask = {.kind = WRK_REQUEST_KEEP};
    struct wire_image_id id;
    uint8_t *bytes;

    if (fcntl(p->fd, F_ADD_SEALS, SEALS) < 0)
        return;
    bytes = mmap(NULL, p->len + 1, PROT_READ, MAP_PRIVATE, p->fd, 0);
    if (bytes == MAP_FAILED)
        return;
    identify(p, bytes, &id);
    munmap(bytes, p->len + 1);
    memcpy(ask.name, id.name, sizeof(ask.name));
    memcpy(ask.secret, id.secret, sizeof(ask.secret));
    wrk_request_send(WRK_FD_REQUEST, &ask, p->fd, 0);
}

static struct pending *
keep_next(void)
{
    struct pending *p;

    pthread_mutex_lock(&keep.lock);
    while (!keep.first)
        pthread_cond_wait(&keep.more, &keep.lock);
    p = keep.first;
    keep.first = p->next;
    pthread_mutex_unlock(&keep.lock);
    return p;
}

static void *
keep_main(void *arg)
{
    for (;;) {
        struct pending *p = keep_next();

        hand_over(p);
        pthread_mutex_lock(&keep.lock);
        keep.count--;
        keep.bytes -= p->len;
        pthread_cond_signal(&keep.done);
        pthread_mutex_unlock(&keep.lock);
        close(p->fd);
        free(p);
    }
    return arg;
}

/* Under the lock. */
static bool
keep_add(struct pending *p)
{
    pthread_t thread;

    if (keep.count >= WRK_IMAGES_PENDING ||
        keep.bytes > WRK_IMAGES_PENDING_BYTES - p->len)
        return false;
    if (!keep.running && pthread_create(&thread, NULL, keep_main, NULL) != 0)
        return false;
    keep.running = true;
    if (!keep.first)
        keep.last = &keep.first;
    *keep.last = p;
    keep.last = &p->next;
    keep.count++;
    keep.bytes += p->len;
    pthread_cond_signal(&keep.more);
    return true;
}

void
wrk_images_keep(int fd, uint64_t len, const unsigned long long *pieces, uint32_t n)
{
    struct pending *p = n <= WRK_IMAGE_PIECES && len <= WRK_IMAGES_PENDING_BYTES
                            ? calloc(1, sizeof(*p))
                            : NULL;
    bool added;

    if (!p) {
        close(fd);
        return;
    }
    p->fd = fd;
    p->len = len;
    p->n = n;
    if (n)
        memcpy(p->pieces, pieces, n * sizeof(*pieces));
    pthread_mutex_lock(&keep.lock);
    added = keep_add(p);
    pthread_mutex_unlock(&keep.lock);
    if (!added) {
        close(fd);
        free(p);
    }
}

void
wrk_images_finish(void)
{
    pthread_mutex_lock(&keep.lock);
    while (keep.count)
        pthread_cond_wait(&keep.done, &keep.lock);
    pthread_mutex_unlock(&keep.lock);
}
