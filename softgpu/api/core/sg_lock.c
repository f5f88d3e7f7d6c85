/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_lock.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_cond = PTHREAD_COND_INITIALIZER;
static unsigned n_waiters;

void
sg_lock(void)
{
    pthread_mutex_lock(&big_lock);
}

void
sg_unlock(void)
{
    pthread_mutex_unlock(&big_lock);
}

void
sg_wait(void)
{
    n_waiters++;
    pthread_cond_wait(&done_cond, &big_lock);
    n_waiters--;
}

void
sg_wait_on(pthread_cond_t *cond)
{
    pthread_cond_wait(cond, &big_lock);
}

void
sg_wake_all(void)
{
    if (n_waiters)
        pthread_cond_broadcast(&done_cond);
}

/* Address space for stacks; NULL: given back, or never had. */
static struct {
    void *_Atomic at;
    size_t size;
} room;

void
sg_thread_keep_room(unsigned n)
{
    pthread_attr_t attr;
    size_t stack = 0;
    void *at;

    pthread_attr_init(&attr);
    pthread_attr_getstacksize(&attr, &stack);
    pthread_attr_destroy(&attr);
    room.size = n * stack;
    at = mmap(NULL, room.size, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    atomic_store(&room.at, at == MAP_FAILED ? NULL : at);
}

/* True: there is more room than before. */
static bool
give_room_back(void)
{
    void *at = atomic_exchange(&room.at, NULL);

    return at && munmap(at, room.size) == 0;
}

int
sg_thread_start(void *(*fn)(void *), void *arg)
{
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    r = pthread_create(&thread, &attr, fn, arg);
    if (r && give_room_back())
        r = pthread_create(&thread, &attr, fn, arg);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -r;
}

CUresult
sg_result(int r)
{
    switch (r) {
    case 0:
        return CUDA_SUCCESS;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -ENOENT:
        return CUDA_ERROR_NOT_FOUND;
    case -ENOSYS:
    case -EOPNOTSUPP:
        return CUDA_ERROR_NOT_SUPPORTED;
    case -EPERM:
    case -EACCES:
        return CUDA_ERROR_NOT_PERMITTED;
    case -EINVAL:
    case -E2BIG:
    case -ERANGE:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_UNKNOWN;
    }
}
