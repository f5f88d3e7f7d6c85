/* SPDX-License-Identifier: Apache-2.0 */
/* What runs in the child of a fork(): async-signal-safe calls only. */
#include "stub_fork.h"

#include "stub_control.h"
#include "stub_link.h"
#include "xport.h"
#include "xport_resume.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* A link that is attached but not initialised is forgotten: the parent has only
 * asked about devices, and its child may attach for itself.  Programs that load
 * their data in forked children rely on it. */
static void
fork_forget(struct stub_link *link)
{
    link->conn = NULL;
    link->attach = NULL;
    atomic_store(&link->leading, false);
    atomic_store(&link->waiting, NULL);
    atomic_store(&link->send.word, 0);
    atomic_store(&link->wait.word, 0);
    atomic_store(&link->lose.word, 0);
    atomic_store(&link->overflow.busy, 0);
    link->overflow.used = 0;
    atomic_store(&link->stripes.word, 0);
    atomic_store(&link->stripe_failures, 0);
    link->stripe_round = 0;
    memset(link->releases, 0, sizeof(link->releases));
    memset(&link->open, 0, sizeof(link->open));
    atomic_store(&link->seq, 0);
    atomic_store(&link->queued, 0);
    stub_link_set_phase(link, STUB_COLD);
}

static void
fork_in_child(void)
{
    for (uint32_t i = 0; i < stub_links_n; i++) {
        struct stub_link *link = &stub_links[i];
        uint32_t phase = atomic_load(&link->phase);

        if (phase == STUB_COLD || phase == STUB_FAILED || phase == STUB_FORKED)
            continue;
        close(link->conn->fd);
        if (xport_resume_ack_fd(link->conn) >= 0)
            close(xport_resume_ack_fd(link->conn));
        if (stub_control_fd(link) >= 0)
            close(stub_control_fd(link));
        if (phase == STUB_LINKED)
            fork_forget(link);
        else
            stub_link_set_phase(link, STUB_FORKED);
    }
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
