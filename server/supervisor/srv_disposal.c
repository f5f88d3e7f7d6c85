/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_disposal.h"

#include "gp_base.h"
#include "gp_err.h"
#include "gp_str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

struct chore {
    struct chore *next;
    int fd;        /* to be closed; -1: a folder is to be removed */
    int at;        /* in which it is */
    char name[64]; /* of the folder */
};

struct srv_disposal {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct chore *first, **tail; /* under the lock */
    bool ending;                 /* likewise */
    atomic_bool hurry;           /* folders are left as they are */
};

/* @hurry, unless it is NULL, ends it early. */
static void
remove_folder(int at, const char *name, const atomic_bool *hurry)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while (!(hurry && atomic_load(hurry)) && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(fd, e->d_name, 0);
    closedir(d);
    unlinkat(at, name, AT_REMOVEDIR);
}

static void
chore_do(const struct chore *chore, const atomic_bool *hurry)
{
    if (chore->fd >= 0)
        close(chore->fd);
    else
        remove_folder(chore->at, chore->name, hurry);
}

static void *
disposal_main(void *arg)
{
    struct srv_disposal *d = arg;

    pthread_mutex_lock(&d->lock);
    while (d->first || !d->ending) {
        CLEANUP_FREE struct chore *chore = d->first;

        if (!chore) {
            pthread_cond_wait(&d->more, &d->lock);
            continue;
        }
        d->first = chore->next;
        if (!d->first)
            d->tail = &d->first;
        pthread_mutex_unlock(&d->lock);
        chore_do(chore, &d->hurry);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

int
srv_disposal_new(struct srv_disposal **ret, struct gp_err *err)
{
    struct srv_disposal *d = calloc(1, sizeof(*d));
    sigset_t all, old;
    int r = d ? 0 : ENOMEM;

    if (r == 0) {
        d->tail = &d->first;
        pthread_mutex_init(&d->lock, NULL);
        pthread_cond_init(&d->more, NULL);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(&d->thread, NULL, disposal_main, d);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (r) {
        free(d);
        return gp_err_set(err, -r, "no thread to remove what workers leave: %s",
                          strerror(r));
    }
    *ret = d;
    return 0;
}

void
srv_disposal_free(struct srv_disposal *d, bool all)
{
    if (!d)
        return;
    atomic_store(&d->hurry, !all);
    pthread_mutex_lock(&d->lock);
    d->ending = true;
    pthread_cond_signal(&d->more);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->more);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* Without memory for it the work is done here. */
static void
chore_add(struct srv_disposal *d, const struct chore *what)
{
    struct chore *chore = d ? malloc(sizeof(*chore)) : NULL;

    if (!chore) {
        chore_do(what, NULL);
        return;
    }
    *chore = *what;
    pthread_mutex_lock(&d->lock);
    *d->tail = chore;
    d->tail = &chore->next;
    pthread_cond_signal(&d->more);
    pthread_mutex_unlock(&d->lock);
}

void
srv_disposal_fd(struct srv_disposal *d, int fd)
{
    if (fd >= 0)
        chore_add(d, &(struct chore){.fd = fd});
}

void
srv_disposal_folder(struct srv_disposal *d, int at, const char *name)
{
    struct chore chore = {.fd = -1, .at = at};

    if (gp_str_copy(chore.name, sizeof(chore.name), name))
        chore_add(d, &chore);
}
