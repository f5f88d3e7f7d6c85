/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to the pool server, and noticing that the attachment is gone.
 *
 * stub_link_open() runs once, under its own lock; whoever comes meanwhile waits for its
 * outcome.  It has five seconds for everything: name lookup apart, every step has the
 * same deadline.
 */
#include "stub_link.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "stub_call.h"
#include "stub_fork.h"
#include "stub_result.h"
#include "stub_session.h"
#include "stub_wait.h"
#include "wire_format.h"
#include "xport.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINK_DEADLINE_NS (5 * GP_NS_PER_S)
#define LINK_REPLY_MAX (1024u * 1024u)

struct stub_link stub_link;

static struct stub_lock open_lock;

/* ---- words for the user ----------------------------------------------------- */

/* The one line that a program without a card leaves on stderr. */
static void
link_complain(const char *server, const char *cause, const char *remedy)
{
    char line[1024];
    int n = snprintf(line, sizeof(line), "gpupool: no GPU: %s%s%s; %s\n",
                     server ? server : "", server ? ": " : "", cause, remedy);

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
        return "is the server up and reachable? `gpupool status` and `gpupool doctor` tell";
    default:
        return "`gpupool doctor` tells more";
    }
}

/* ---- the handshake ----------------------------------------------------------- */

static int
link_send_request(int fd, const struct stub_session *session, uint64_t deadline,
                  struct gp_err *err)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    CLEANUP_FREE uint8_t *bytes = NULL;
    char host[256] = "";
    char *transports[] = {(char *)"tcp"};
    size_t len;

    gethostname(host, sizeof(host) - 1);
    req.wire_major = WIRE_MAJOR;
    req.wire_minor = WIRE_MINOR;
    req.ticket = (char *)session->ticket;
    req.client_version = (char *)GPUPOOL_VERSION;
    req.pid = (uint32_t)getpid();
    req.hostname = host;
    req.program = program_invocation_short_name;
    req.cuda_version = CUDA_VERSION;
    req.transports = transports;
    req.n_transports = ARRAY_SIZE(transports);
    len = gpupool__attach_request__get_packed_size(&req);
    bytes = malloc(len);
    if (!bytes)
        return -ENOMEM;
    gpupool__attach_request__pack(&req, bytes);
    return gp_msg_send(fd, bytes, len, deadline, err);
}

/* The reply, which the caller owns.  Whatever it says, it is well-formed. */
static int
link_recv_reply(int fd, uint64_t deadline, Gpupool__AttachReply **ret, struct gp_err *err)
{
    CLEANUP_FREE void *bytes = NULL;
    size_t len;
    int r = gp_msg_recv(fd, LINK_REPLY_MAX, deadline, &bytes, &len, err);

    if (r < 0)
        return r;
    *ret = gpupool__attach_reply__unpack(NULL, len, bytes);
    if (!*ret)
        return gp_err_set(err, -EPROTO, "the server's answer is no attach reply");
    return 0;
}

static int
link_check_reply(const Gpupool__AttachReply *reply, struct gp_err *err)
{
    for (size_t i = 0; i < reply->n_devices; i++)
        if (reply->devices[i]->uuid.len != 16)
            return gp_err_set(err, -EPROTO, "device %zu has no UUID", i);
    if (reply->n_devices == 0)
        return gp_err_set(err, -ENODEV, "the session has no device");
    return 0;
}

/* On success the global link owns the connection and the reply.  *ret_status is the
 * server's refusal when there is one. */
static int
link_attach(const struct stub_session *session, int *ret_status, struct gp_err *err)
{
    uint64_t deadline = gp_now_ns() + LINK_DEADLINE_NS;
    CLEANUP_FD int fd = -1;
    Gpupool__AttachReply *reply = NULL;
    int r;

    r = gp_net_connect(session->server, STUB_SERVER_PORT, deadline, true, &fd, err);
    if (r >= 0)
        r = link_send_request(fd, session, deadline, err);
    if (r >= 0)
        r = link_recv_reply(fd, deadline, &reply, err);
    if (r < 0)
        return r;
    *ret_status = (int)reply->status;
    if (reply->status != GPUPOOL__ATTACH_STATUS__ATTACH_OK)
        r = gp_err_set(err, -EACCES, "refused: %s",
                       *reply->message ? reply->message : "the server gave no reason");
    else
        r = link_check_reply(reply, err);
    if (r >= 0) {
        r = xport_tcp_new(fd, WIRE_FRAME_MAX, &stub_link.conn, err);
        if (r >= 0)
            fd = -1; /* the connection owns it now */
    }
    if (r < 0) {
        gpupool__attach_reply__free_unpacked(reply, NULL);
        return r;
    }
    stub_link.attach = reply;
    return 0;
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
    struct gp_err err = {0};
    int status = 0;
    int r = stub_session_read(&session, &err);

    if (r >= 0)
        r = link_attach(&session, &status, &err);
    if (r < 0) {
        link_complain(session.server, gp_err_msg(&err, r), link_remedy(r));
        link_fail(status ? stub_result_refused(status) : stub_result_attach(r));
    } else if (stub_fork_watch() < 0) {
        link_complain(session.server, "out of memory", "free some");
        link_fail(CUDA_ERROR_OUT_OF_MEMORY);
    } else {
        gp_log_info("stub", "attached to %s as %s, driver %s %u, %zu device(s)",
                    session.server, stub_link.attach->attachment,
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
