/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared segment of one card.
 *
 * Locking: head->lock is a robust process-shared mutex and guards every field
 * but the atomics.  A process that dies inside it leaves counters that may be
 * half updated; the next owner rebuilds all sums from the slots, and each slot
 * is changed by one store.  Waiting uses bare futex words, one per slot: a
 * process-shared condition variable cannot survive a killed waiter.
 *
 * Fairness: every process has a virtual time that grows with the time it holds
 * tokens.  A token that is put back is *granted* to the waiting process with
 * the smallest virtual time, so the one that gives it up cannot take it again
 * at once.  A process that comes back from idleness starts at the smallest
 * time of the busy ones: idleness is not saved up.
 */
#include "sg_card.h"
#include "sg_conf.h"

#include "gp_err.h"
#include "gp_fsize.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SEG_MAGIC UINT64_C(0x3274726163676173) /* changes with the layout */
#define SEG_INIT_BYTE 4096 /* record lock held while the file is (re)made */

enum {
    /* 1,000 sessions on one host is the aim; each is at least one process. */
    SEG_MAX_PROCS = 2048,
    /* A waiter looks for dead token holders this often. */
    SEG_POLL_NS = 20 * 1000 * 1000,
};

struct seg_proc {
    _Atomic uint32_t live; /* 0, or a random number of the process */
    _Atomic uint32_t wake; /* futex word: bumped with every grant */
    uint32_t holding;      /* tokens, granted ones included */
    uint32_t granted;      /* given to this process, not yet picked up */
    uint32_t waiting;      /* threads of it that wait */
    uint32_t exports;      /* it has exported memory at some time */
    uint64_t mem_used;
    uint64_t vtime;
};

struct seg_head {
    uint64_t magic;
    uint64_t memory;
    uint32_t sms;
    uint32_t n_slots; /* slots ever used: the end of every scan */
    pthread_mutex_t lock;
    uint64_t mem_used;
    uint32_t tokens_free;
    _Atomic uint32_t n_waiting; /* all processes */
    struct seg_proc procs[SEG_MAX_PROCS];
};

struct sg_card {
    int fd;
    struct seg_head *head;
    unsigned slot;
    _Atomic uint32_t own_waiting;
    char path[PATH_MAX];
    bool handed; /* the segment came as a descriptor and has no name */
};

static int
futex(_Atomic uint32_t *word, int op, uint32_t val, const struct timespec *timeout)
{
    return (int)syscall(SYS_futex, word, op, val, timeout, NULL, 0);
}

static struct flock
record_lock(short type, off_t start)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
}

bool
sg_card_slot_alive(const struct sg_card *card, unsigned slot)
{
    struct flock fl = record_lock(F_WRLCK, (off_t)slot);

    if (slot == card->slot)
        return true;
    return fcntl(card->fd, F_GETLK, &fl) == 0 && fl.l_type != F_UNLCK;
}

uint64_t
sg_card_process(const struct sg_card *card)
{
    return (uint64_t)card->head->procs[card->slot].live << 32 | card->slot;
}

bool
sg_card_process_alive(const struct sg_card *card, uint64_t process)
{
    uint32_t slot = (uint32_t)process, mark = process >> 32;

    return slot < SEG_MAX_PROCS && (!mark || card->head->procs[slot].live == mark) &&
           sg_card_slot_alive(card, slot);
}

/* Sums are derived: recompute them from the slots. */
static void
head_rebuild(struct seg_head *head)
{
    uint32_t holding = 0, waiting = 0;
    uint64_t used = 0;

    for (unsigned i = 0; i < head->n_slots; i++) {
        if (!head->procs[i].live)
            continue;
        holding += head->procs[i].holding;
        waiting += head->procs[i].waiting;
        used += head->procs[i].mem_used;
    }
    head->mem_used = used;
    head->tokens_free = holding < head->sms ? head->sms - holding : 0;
    head->n_waiting = waiting;
}

static void
card_lock(struct sg_card *card)
{
    if (pthread_mutex_lock(&card->head->lock) == EOWNERDEAD) {
        head_rebuild(card->head);
        pthread_mutex_consistent(&card->head->lock);
    }
}

static void
card_unlock(struct sg_card *card)
{
    pthread_mutex_unlock(&card->head->lock);
}

static uint64_t
least_busy_vtime(const struct seg_head *head)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < head->n_slots; i++) {
        const struct seg_proc *p = &head->procs[i];

        if (p->live && (p->holding || p->waiting) && p->vtime < least)
            least = p->vtime;
    }
    return least == UINT64_MAX ? 0 : least;
}

static struct seg_proc *
most_starved(struct seg_head *head)
{
    struct seg_proc *best = NULL;

    for (unsigned i = 0; i < head->n_slots; i++) {
        struct seg_proc *p = &head->procs[i];

        if (p->live && p->waiting > p->granted && (!best || p->vtime < best->vtime))
            best = p;
    }
    return best;
}

/* Hands free tokens to those who starve most.  Lock held. */
static void
grant_free_tokens(struct seg_head *head)
{
    while (head->tokens_free) {
        struct seg_proc *p = most_starved(head);

        if (!p)
            return;
        head->tokens_free--;
        p->holding++;
        p->granted++;
        atomic_fetch_add(&p->wake, 1);
        futex(&p->wake, FUTEX_WAKE, INT_MAX, NULL);
    }
}

unsigned
sg_card_slot(const struct sg_card *card)
{
    return card->slot;
}

void
sg_card_ipc_path(const struct sg_card *card, unsigned slot, uint64_t id,
                 char path[SG_CARD_PATH_MAX])
{
    snprintf(path, SG_CARD_PATH_MAX, "%s-ipc%u-%" PRIu64, card->path, slot, id);
}

/* Removes the files that a dead process exported from @slot. */
static void
exports_remove(const struct sg_card *card, unsigned slot)
{
    char dir[PATH_MAX], path[SG_CARD_PATH_MAX];
    char *slash, *end;
    struct dirent *e;
    size_t n;
    DIR *d;

    memcpy(dir, card->path, sizeof(dir));
    slash = strrchr(dir, '/');
    *slash = '\0';
    d = opendir(dir);
    if (!d)
        return;
    n = (size_t)snprintf(path, sizeof(path), "%s-ipc%u-", slash + 1, slot);
    while ((e = readdir(d))) {
        if (strncmp(e->d_name, path, n))
            continue;
        sg_card_ipc_path(card, slot, strtoull(e->d_name + n, &end, 10), path);
        if (!*end)
            unlink(path);
        n = (size_t)snprintf(path, sizeof(path), "%s-ipc%u-", slash + 1, slot);
    }
    closedir(d);
}

/* Takes everything back from processes that are no more.  Lock held. */
static void
card_sweep(struct sg_card *card)
{
    struct seg_head *head = card->head;
    bool found = false;

    for (unsigned i = 0; i < head->n_slots; i++) {
        if (!head->procs[i].live || sg_card_slot_alive(card, i))
            continue;
        if (head->procs[i].exports)
            exports_remove(card, i);
        memset(&head->procs[i], 0, sizeof(head->procs[i]));
        found = true;
    }
    if (found) {
        head_rebuild(head);
        grant_free_tokens(head);
    }
}

static int
segment_path(const struct sg_conf *conf, unsigned index, char *path, size_t size,
             struct gp_err *err)
{
    const char *dir = getenv("SOFTGPU_DIR");
    int n;

    n = snprintf(path, size, "%s/softgpu-%u%s%s-card%u", dir && *dir ? dir : "/dev/shm",
                 (unsigned)geteuid(), conf->instance[0] ? "-" : "", conf->instance,
                 index);
    if (n < 0 || (size_t)n >= size)
        return gp_err_set(err, -ENAMETOOLONG, "SOFTGPU_DIR is too long");
    return 0;
}

/* What a pool's server hands its workers instead of files that they would find
 * themselves: "INDEX:DESCRIPTOR,...", a sealed memory file per card that processes of
 * several users share, and SOFTGPU_EXPORTS, a folder of the session's own.  -1: this
 * process has no descriptor for the card. */
static int
handed_fd(unsigned index)
{
    const char *text = getenv("SOFTGPU_CARD_FILES");

    while (text && *text) {
        char *end;
        unsigned long card = strtoul(text, &end, 10);
        unsigned long fd = *end == ':' ? strtoul(end + 1, &end, 10) : INT_MAX;

        if (card == index && fd < INT_MAX)
            return (int)fd;
        text = *end == ',' ? end + 1 : NULL;
    }
    return -1;
}

static int
segment_handed(struct sg_card *card, int fd, unsigned index, struct gp_err *err)
{
    const char *exports = getenv("SOFTGPU_EXPORTS");
    struct stat st;

    card->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (card->fd < 0 || fstat(card->fd, &st) < 0)
        return gp_err_set(err, -errno, "SOFTGPU_CARD_FILES: descriptor %d: %s", fd,
                          strerror(errno));
    if ((size_t)st.st_size < sizeof(struct seg_head))
        return gp_err_set(err, -EINVAL, "SOFTGPU_CARD_FILES: the file is too small");
    if ((size_t)snprintf(card->path, sizeof(card->path), "%s/card%u",
                         exports ? exports : "", index) >= sizeof(card->path))
        return gp_err_set(err, -ENAMETOOLONG, "SOFTGPU_EXPORTS is too long");
    card->handed = true;
    return 0;
}

static int
segment_map(struct sg_card *card, const char *path, struct gp_err *err)
{
    /* posix_fallocate, not ftruncate: a full /dev/shm is an error here and not
     * a SIGBUS at the first touch. */
    if (gp_fsize_reserve(card->fd, sizeof(struct seg_head)) < 0)
        return gp_err_set(err, -ENOSPC, "%s: no room for the card's segment", path);
    card->head = mmap(NULL, sizeof(struct seg_head), PROT_READ | PROT_WRITE, MAP_SHARED,
                      card->fd, 0);
    if (card->head == MAP_FAILED) {
        card->head = NULL;
        return gp_err_set(err, -errno, "%s: mmap: %s", path, strerror(errno));
    }
    return 0;
}

static int
segment_open(struct sg_card *card, const char *path, struct gp_err *err)
{
    struct stat st;

    card->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (card->fd < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (fstat(card->fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))
        return gp_err_set(err, -EPERM, "%s: not a private file of this user", path);
    return segment_map(card, path, err);
}

static void
segment_format(struct seg_head *head, const struct sg_conf *conf)
{
    pthread_mutexattr_t attr;

    memset(head, 0, sizeof(*head));
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&head->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    head->memory = conf->memory;
    head->sms = conf->sms;
    head->tokens_free = conf->sms;
    head->magic = SEG_MAGIC;
}

static bool
segment_has_users(const struct sg_card *card)
{
    struct flock fl = record_lock(F_WRLCK, 0);

    fl.l_len = SEG_MAX_PROCS;
    return fcntl(card->fd, F_GETLK, &fl) == 0 && fl.l_type != F_UNLCK;
}

static int
slot_take(struct sg_card *card)
{
    for (unsigned i = 0; i < SEG_MAX_PROCS; i++) {
        struct flock fl = record_lock(F_WRLCK, (off_t)i);

        if (fcntl(card->fd, F_SETLK, &fl) < 0)
            continue;
        card->slot = i;
        return 0;
    }
    return -EUSERS;
}

/* Tells the process from those that have its place before and after it. */
static uint32_t
random_mark(void)
{
    uint32_t mark = 0;

    return getentropy(&mark, sizeof(mark)) < 0 || !mark ? 1 : mark;
}

/* Under the init byte's lock: nobody else joins or formats meanwhile. */
static int
segment_join(struct sg_card *card, const struct sg_conf *conf, struct gp_err *err)
{
    struct seg_head *head = card->head;
    struct seg_proc *self;

    if (head->magic != SEG_MAGIC || !segment_has_users(card)) {
        for (unsigned i = 0; head->magic == SEG_MAGIC && i < head->n_slots; i++)
            if (i < SEG_MAX_PROCS && head->procs[i].exports)
                exports_remove(card, i);
        segment_format(head, conf);
    }
    if (slot_take(card) < 0)
        return gp_err_set(err, -EUSERS, "more than %d processes use this card",
                          SEG_MAX_PROCS);
    card_lock(card);
    self = &head->procs[card->slot];
    if (self->exports)
        exports_remove(card, card->slot);
    memset(self, 0, sizeof(*self)); /* what a dead one left there is void */
    self->live = random_mark();
    if (card->slot >= head->n_slots)
        head->n_slots = card->slot + 1;
    head_rebuild(head);
    card_unlock(card);
    return 0;
}

static void
segment_close(struct sg_card *card)
{
    if (card->head)
        munmap(card->head, sizeof(*card->head));
    card->head = NULL;
    if (card->fd >= 0)
        close(card->fd);
    card->fd = -1;
}

/* The file is still the one that others find under its name. */
static bool
segment_is_named(const struct sg_card *card)
{
    struct stat ours, named;

    if (card->handed)
        return true;
    return fstat(card->fd, &ours) == 0 && stat(card->path, &named) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

int
sg_card_open(const struct sg_conf *conf, unsigned index, struct sg_card **ret_card,
             struct gp_err *err)
{
    struct flock fl = record_lock(F_WRLCK, SEG_INIT_BYTE);
    struct sg_card *card;
    char path[PATH_MAX];
    int handed = handed_fd(index);
    int r;

    static_assert(SEG_INIT_BYTE >= SEG_MAX_PROCS, "init byte above the slots' bytes");
    r = segment_path(conf, index, path, sizeof(path), err);
    if (r < 0)
        return r;
    card = calloc(1, sizeof(*card));
    if (!card)
        return -ENOMEM;
    card->fd = -1;
    memcpy(card->path, path, sizeof(card->path));
    do {
        segment_close(card);
        if (handed >= 0)
            r = segment_handed(card, handed, index, err);
        else
            r = segment_open(card, path, err);
        if (r == 0 && handed >= 0)
            r = segment_map(card, "SOFTGPU_CARD_FILES", err);
        if (r < 0)
            goto fail;
        if (fcntl(card->fd, F_SETLKW, &fl) < 0) {
            r = gp_err_set(err, -errno, "%s: lock: %s", path, strerror(errno));
            goto fail;
        }
    } while (!segment_is_named(card)); /* removed meanwhile: make a new one */
    r = segment_join(card, conf, err);
    fl.l_type = F_UNLCK;
    fcntl(card->fd, F_SETLK, &fl);
    if (r < 0)
        goto fail;
    *ret_card = card;
    return 0;
fail:
    sg_card_close(card);
    return r;
}

/* Closing the file drops the slot's lock; the slot itself is then swept by the
 * next one who looks. */
void
sg_card_close(struct sg_card *card)
{
    if (!card)
        return;
    segment_close(card);
    free(card);
}

void
sg_card_leave(struct sg_card *card)
{
    if (!card->handed)
        sg_card_unlink_if_last(card->fd, card->path);
}

uint64_t
sg_card_memory(const struct sg_card *card)
{
    return card->head->memory;
}

unsigned
sg_card_sms(const struct sg_card *card)
{
    return card->head->sms;
}

int
sg_card_charge(struct sg_card *card, uint64_t bytes)
{
    struct seg_head *head = card->head;
    int r = 0;

    card_lock(card);
    if (bytes > head->memory - head->mem_used)
        card_sweep(card);
    if (bytes > head->memory - head->mem_used) {
        r = -ENOMEM;
    } else {
        head->procs[card->slot].mem_used += bytes;
        head->mem_used += bytes;
    }
    card_unlock(card);
    return r;
}

void
sg_card_uncharge(struct sg_card *card, uint64_t bytes)
{
    struct seg_head *head = card->head;

    card_lock(card);
    head->procs[card->slot].mem_used -= bytes;
    head->mem_used -= bytes;
    card_unlock(card);
}

void
sg_card_note_export(struct sg_card *card)
{
    card_lock(card);
    card->head->procs[card->slot].exports = 1;
    card_unlock(card);
}

uint64_t
sg_card_used(struct sg_card *card)
{
    uint64_t used;

    card_lock(card);
    card_sweep(card);
    used = card->head->mem_used;
    card_unlock(card);
    return used;
}

static void
waiting_add(struct sg_card *card, struct seg_proc *self, int delta)
{
    self->waiting += (uint32_t)delta;
    card->head->n_waiting += (uint32_t)delta;
    card->own_waiting += (uint32_t)delta;
}

/* Lock held.  True when this thread now holds a token. */
static bool
token_try(struct sg_card *card, struct seg_proc *self, bool queued)
{
    struct seg_head *head = card->head;

    if (self->granted) {
        self->granted--;
        return true;
    }
    if (!head->tokens_free || (!queued && most_starved(head)))
        return false;
    head->tokens_free--;
    self->holding++;
    return true;
}

static void
token_wait(struct sg_card *card, struct seg_proc *self)
{
    static const struct timespec poll = {0, SEG_POLL_NS};
    uint32_t seen;

    while (!token_try(card, self, true)) {
        seen = self->wake;
        card_unlock(card);
        if (futex(&self->wake, FUTEX_WAIT, seen, &poll) < 0 && errno == ETIMEDOUT) {
            card_lock(card);
            card_sweep(card);
        } else {
            card_lock(card);
        }
    }
    waiting_add(card, self, -1);
}

void
sg_card_token_get(struct sg_card *card)
{
    struct seg_proc *self = &card->head->procs[card->slot];
    uint64_t least;

    card_lock(card);
    if (!self->holding && !self->waiting) {
        least = least_busy_vtime(card->head);
        if (self->vtime < least)
            self->vtime = least;
    }
    if (!token_try(card, self, false)) {
        waiting_add(card, self, 1);
        token_wait(card, self);
    }
    card_unlock(card);
}

void
sg_card_token_put(struct sg_card *card, uint64_t ns)
{
    struct seg_head *head = card->head;
    struct seg_proc *self = &head->procs[card->slot];

    card_lock(card);
    self->vtime += ns;
    self->holding--;
    head->tokens_free++;
    grant_free_tokens(head);
    card_unlock(card);
}

bool
sg_card_contended(const struct sg_card *card)
{
    return atomic_load(&card->head->n_waiting) > atomic_load(&card->own_waiting);
}
