/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the session's links; see stub_open.h. */
#include "stub_open.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_fsize.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_utf8.h"
#include "stub_attach.h"
#include "stub_call.h"
#include "stub_fork.h"
#include "stub_link.h"
#include "stub_result.h"
#include "stub_session.h"
#include "xport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gp_lock open_lock;

/* ---- words for the user ----------------------------------------------------- */

/* The one line that a program without a card leaves on stderr. */
static void
link_complain(const char *server, const char *cause, const char *remedy)
{
    char line[1024];
    bool named = !server || strstr(cause, server);
    int n = snprintf(line, sizeof(line) - 1, "gpupool: no GPU: %s%s%s; %s",
                     named ? "" : server, named ? "" : ": ", cause, remedy);

    n = gp_min(n, (int)sizeof(line) - 2);
    gp_utf8_mask(line); /* a cause may be the server's words */
    line[n++] = '\n';
    if (gp_fsize_write(STDERR_FILENO, line, (size_t)n) < 0)
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

/* All links share the fate of their session's beginning. */
static void
link_set_phases(enum stub_phase phase)
{
    for (uint32_t i = 0; i < stub_links_n; i++)
        stub_link_set_phase(&stub_links[i], phase);
}

static void
link_fail(CUresult result)
{
    for (uint32_t i = 0; i < stub_links_n; i++)
        atomic_store(&stub_links[i].failure, (int32_t)result);
    link_set_phases(STUB_FAILED);
}

/* Attach to one server; the devices of the ones before it are known. */
static int
link_attach(struct stub_link *link, const struct stub_server *server,
            const char *secret, uint32_t *devices, struct stub_attach *at,
            struct gp_err *err)
{
    int r;

    *at = (struct stub_attach){.links = stub_links_n,
                               .link = link->number,
                               .device_base = *devices,
                               .secret = secret};
    r = stub_attach(server, at, err);
    if (r < 0)
        return r;
    link->attach = at->reply;
    link->conn = at->conn;
    free(link->address);
    link->address = strdup(at->address);
    link->proven = at->proven;
    memcpy(link->key, at->key, sizeof(link->key));
    link->tls = at->tls;
    /* The connection is reset when the process dies, so that a worker that does not
     * read, because its device hangs, notices. */
    gp_net_reset_on_close(link->conn->fd, true);
    atomic_store(&link->count_payloads, link->attach->lanes_max != 0);
    link->hears = stub_link_can(link, "received");
    link->takes_pieces = stub_link_can(link, "pieces");
    link->uploads_complete = stub_link_can(link, "uploads-complete");
    link->device_base = *devices;
    *devices += (uint32_t)gp_min(link->attach->n_devices, (size_t)UINT16_MAX);
    gp_log_info("stub", "attached to %s over %s%s as %s, driver %s %u, %zu device(s)",
                at->address, xport_name(at->conn), at->tls.on ? " with TLS" : "",
                link->attach->attachment, link->attach->driver,
                link->attach->driver_version, link->attach->n_devices);
    return 0;
}

static void
link_detach_all(void)
{
    for (uint32_t i = 0; i < stub_links_n; i++) {
        xport_free(stub_links[i].conn);
        stub_links[i].conn = NULL;
    }
}

static void
open_locked(void)
{
    struct stub_session session = {0};
    const char *address = NULL;
    struct stub_attach at = {0};
    struct gp_err err = {0};
    uint32_t devices = 0;
    int r = stub_session_read(&session, &err);

    stub_links_n = gp_max(session.n_servers, 1u);
    for (uint32_t i = 0; r >= 0 && i < session.n_servers; i++) {
        stub_links[i].number = i;
        address = session.servers[i].address;
        r = link_attach(&stub_links[i], &session.servers[i], session.secret, &devices,
                        &at, &err);
    }
    if (r >= 0 && stub_fork_watch() < 0)
        r = gp_err_set(&err, -ENOMEM, "out of memory");
    if (r < 0) {
        link_complain(address, gp_err_msg(&err, r), link_remedy(r));
        link_detach_all();
        link_fail(at.status ? stub_result_refused(at.status) : stub_result_attach(r));
    } else {
        stub_slow |= stub_links_n > 1;
        link_set_phases(STUB_LINKED);
    }
    stub_session_fini(&session);
}

CUresult
stub_open(void)
{
    _Atomic uint32_t *first = &stub_links[0].phase;
    uint32_t phase = atomic_load_explicit(first, memory_order_acquire);

    if (phase == STUB_COLD) {
        gp_lock_take(&open_lock);
        if (atomic_load(first) == STUB_COLD)
            open_locked();
        gp_lock_release(&open_lock);
        phase = atomic_load(first);
    }
    return phase == STUB_LINKED || phase == STUB_READY ? CUDA_SUCCESS
                                                       : stub_link_refusal(stub_links);
}

void
stub_open_ready(void)
{
    for (uint32_t i = 0; i < stub_links_n; i++)
        stub_link_move_phase(&stub_links[i], STUB_LINKED, STUB_READY);
}
