/* SPDX-License-Identifier: Apache-2.0 */
/* What runs in the child of a fork(): async-signal-safe calls only. */
#include "stub_fork.h"

#include "stub_link.h"
#include "xport.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

/* Attached, but never initialised: a parent that only asked about cards leaves its
 * children free to attach for themselves.  Programs that load their data in forked
 * children rely on it. */
static void
fork_forget(void)
{
    stub_link.conn = NULL;
    stub_link.attach = NULL;
    stub_link.leading = false;
    stub_link.waiting = NULL;
    atomic_store(&stub_link.send.word, 0);
    atomic_store(&stub_link.wait.word, 0);
    atomic_store(&stub_link.seq, 0);
    atomic_store(&stub_link.queued, 0);
    atomic_store(&stub_link.phase, STUB_COLD);
}

static void
fork_in_child(void)
{
    uint32_t phase = atomic_load(&stub_link.phase);

    if (phase == STUB_COLD || phase == STUB_FAILED || phase == STUB_FORKED)
        return;
    close(stub_link.conn->fd);
    if (phase == STUB_LINKED)
        fork_forget();
    else
        atomic_store(&stub_link.phase, STUB_FORKED);
}

int
stub_fork_watch(void)
{
    static bool watched;

    if (!watched && pthread_atfork(NULL, NULL, fork_in_child))
        return -ENOMEM;
    watched = true;
    return 0;
}
