/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to the pool server, and noticing that the attachment is gone.
 *
 * stub_link_open() runs once, under its own lock; whoever comes meanwhile waits for its
 * outcome.
 */
#include "stub_link.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_log.h"
#include "stub_attach.h"
#include "stub_fork.h"
#include "stub_result.h"
#include "stub_session.h"
#include "stub_wait.h"
#include "xport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct stub_link stub_link;

static struct stub_lock open_lock;

/* ---- words for the user ----------------------------------------------------- */

/* The one line that a program without a card leaves on stderr. */
static void
link_complain(const char *server, const char *cause, const char *remedy)
{
    char line[1024];
    bool named = !server || strstr(cause, server);
    int n = snprintf(line, sizeof(line), "gpupool: no GPU: %s%s%s; %s\n",
                     named ? "" : server, named ? "" : ": ", cause, remedy);

    n = gp_min(n, (int)sizeof(line) - 1);
    line[n - 1] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        gp_log_debug("stub", "stderr is closed");
}

static const char *
link_remedy(int err)
{
    switch (err) {
    case -ENOENT:
        return "start the program with `gpupool run -- PROGRAM`";
    case -ECONNREFUSED:
    case -ETIMEDOUT:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
        return "is the server up and reachable? `gpupool status` and `gpupool doctor` "
               "tell";
    default:
        return "`gpupool doctor` tells more";
    }
}

static void
link_fail(CUresult result)
{
    atomic_store(&stub_link.failure, (int32_t)result);
    atomic_store_explicit(&stub_link.phase, STUB_FAILED, memory_order_release);
}

static void
link_open_locked(void)
{
    struct stub_session session = {0};
    struct stub_attach at = {0};
    struct gp_err err = {0};
    int r = stub_session_read(&session, &err);

    if (r >= 0)
        r = stub_attach(&session, &at, &err);
    stub_link.attach = at.reply;
    stub_link.conn = at.conn;
    if (r < 0) {
        link_complain(session.server, gp_err_msg(&err, r), link_remedy(r));
        link_fail(at.status ? stub_result_refused(at.status) : stub_result_attach(r));
    } else if (stub_fork_watch() < 0) {
        link_complain(session.server, "out of memory", "free some");
        link_fail(CUDA_ERROR_OUT_OF_MEMORY);
    } else {
        gp_log_info("stub", "attached to %s over %s as %s, driver %s %u, %zu device(s)",
                    at.address, xport_name(at.conn), stub_link.attach->attachment,
                    stub_link.attach->driver, stub_link.attach->driver_version,
                    stub_link.attach->n_devices);
        atomic_store_explicit(&stub_link.phase, STUB_LINKED, memory_order_release);
    }
    stub_session_fini(&session);
}

CUresult
stub_link_open(void)
{
    uint32_t phase = atomic_load_explicit(&stub_link.phase, memory_order_acquire);

    if (phase == STUB_COLD) {
        stub_lock_take(&open_lock);
        if (atomic_load(&stub_link.phase) == STUB_COLD)
            link_open_locked();
        stub_lock_release(&open_lock);
        phase = atomic_load(&stub_link.phase);
    }
    return phase == STUB_LINKED || phase == STUB_READY ? CUDA_SUCCESS
                                                       : stub_link_refusal();
}

void
stub_link_set_ready(void)
{
    uint32_t linked = STUB_LINKED;

    atomic_compare_exchange_strong(&stub_link.phase, &linked, STUB_READY);
}

CUresult
stub_link_lose(const char *why)
{
    CUresult result = stub_result_lost();
    uint32_t phase = atomic_load(&stub_link.phase);

    atomic_store(&stub_link.failure, (int32_t)result);
    while ((phase == STUB_READY || phase == STUB_LINKED) &&
           !atomic_compare_exchange_weak(&stub_link.phase, &phase, STUB_LOST))
        ;
    if (phase == STUB_READY || phase == STUB_LINKED) {
        gp_log_error("stub", "session %s is lost: %s", stub_link.attach->session, why);
        xport_abort(stub_link.conn);
    }
    stub_wait_abort(result);
    return result;
}

CUresult
stub_link_refusal(void)
{
    switch (atomic_load_explicit(&stub_link.phase, memory_order_acquire)) {
    case STUB_FAILED:
    case STUB_LOST:
        return (CUresult)atomic_load(&stub_link.failure);
    case STUB_GONE:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}
