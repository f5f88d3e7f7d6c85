/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a thread that the application does not notice. */
#include "stub_thread.h"

#include "cuda_abi.h"
#include "stub_tls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

struct thread_start {
    const char *name;
    void (*fn)(void *arg);
    void *arg;
};

static void *
thread_main(void *arg)
{
    struct thread_start start = *(struct thread_start *)arg;

    free(arg);
    prctl(PR_SET_NAME, start.name, 0, 0, 0);
    /* What the library asks for itself no capture of the program forbids, nor does it
     * end one. */
    stub_tls_relax();
    start.fn(start.arg);
    return NULL;
}

int
stub_thread_start(const char *name, void (*fn)(void *arg), void *arg)
{
    struct thread_start *start = malloc(sizeof(*start));
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    if (!start)
        return -ENOMEM;
    *start = (struct thread_start){name, fn, arg};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    r = pthread_create(&thread, &attr, thread_main, start);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r)
        free(start);
    return -r;
}
