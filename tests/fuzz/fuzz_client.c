/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of an attach and of the control plane against a hostile server and
 * a hostile scheduler: what they answer comes from the fuzzer.
 *
 * The first byte chooses who speaks.  Session files, which a hostile scheduler's grant
 * is written into, are the third.
 */
#include "stub_attach.c"
#include "stub_rdma.c"
#include "stub_session.c"

#include "ctl_call.h"
#include "ctl_prove.h"
#include "gp_log.h"
#include "stub_pod.h"
#include "stub_tls.h"

#include <sys/socket.h>

__thread struct stub_tls stub_tls;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

bool
stub_pod_named(void)
{
    return false;
}

int
stub_pod_session(char **ret_text, struct gp_err *err)
{
    (void)ret_text, (void)err;
    return -ENOENT;
}

int
stub_stripes_settings(void)
{
    return 0;
}

/* A socket that answers with these bytes and then ends. */
static int
answering(const uint8_t *data, size_t size)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        __builtin_trap();
    if (write(fds[1], data, size) != (ssize_t)size)
        __builtin_trap(); /* at most 8 KiB come */
    shutdown(fds[1], SHUT_WR);
    /* Left open while the client writes: the other end is closed with the first. */
    dup2(fds[1], 100);
    close(fds[1]);
    return fds[0];
}

static void
hostile_server(const uint8_t *data, size_t size)
{
    static const struct stub_server server = {.address = "x:1", .ticket = "ticket"};
    struct stub_attach at = {.links = 1,
                             .secret = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                             .deadline_ns = gp_now_ns() + GP_NS_PER_S};
    struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX];
    uint8_t cookie[XPORT_RDMA_COOKIE];
    Gpupool__AttachReply *reply = NULL;
    const Gpupool__AttachTransport *offer;
    struct gp_err err = {0};
    int fd = answering(data, size);

    if (attach_ask(NULL, fd, &server, "rdma", &at, &reply, &err) == 0 &&
        attach_check_reply(reply, &err) == 0 &&
        (offer = stub_rdma_offer(reply, "rdma")) &&
        stub_rdma_ports(offer, ports, cookie) > XPORT_RDMA_PORTS_MAX)
        __builtin_trap();
    gpupool__attach_reply__free_unpacked(reply, NULL);
    close(fd);
}

/* What comes after the answer, which the fuzzer does not reach. */
uint32_t
stub_resume_seconds(void)
{
    return 0;
}

int
stub_resume_open(const char *address, const struct stub_secure *tls, const uint8_t *key,
                 const Gpupool__AttachReply *reply, int fd, struct xport_conn **ret,
                 struct gp_err *err)
{
    (void)address, (void)tls, (void)key, (void)reply, (void)fd, (void)ret;
    return gp_err_set(err, -ENOSYS, "not here");
}

int
stub_resume_open_rdma(const char *address, const struct stub_secure *tls,
                      const uint8_t *key, const Gpupool__AttachReply *reply,
                      struct xport_conn *rdma, struct xport_conn **ret,
                      struct gp_err *err)
{
    (void)address, (void)tls, (void)key, (void)reply, (void)rdma, (void)ret;
    return gp_err_set(err, -ENOSYS, "not here");
}

void
stub_resume_tell(struct xport_conn *conn)
{
    (void)conn;
}

static int
call(void *arg, Gpupool__Ctl__CtlRequest *req, Gpupool__Ctl__CtlReply **ret_reply,
     struct gp_err *err)
{
    const struct ctl_link link = {.fd = *(int *)arg};

    req->id = 1;
    return ctl_call(&link, req, gp_now_ns() + GP_NS_PER_MS, ret_reply, err);
}

static void
hostile_scheduler(const uint8_t *data, size_t size)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlStatus body = GPUPOOL__CTL__CTL_STATUS__INIT;
    Gpupool__Ctl__CtlReply *reply = NULL;
    struct gp_err err = {0};
    int fd = answering(data, size);

    if (ctl_prove(call, &fd, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT, "token", "x",
                  NULL, &err) == 0)
        __builtin_trap(); /* nobody guesses the answer to a fresh nonce */
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &body;
    if (call(&fd, &req, &reply, &err) >= 0 && !reply)
        __builtin_trap();
    ctl_reply_free(reply);
    close(fd);
}

static void
session_file(const uint8_t *data, size_t size)
{
    struct stub_session s = {.text = strndup((const char *)data, size)};
    struct gp_err err = {0};

    s.size = s.text ? strlen(s.text) : 0;
    if (s.text && session_parse(&s, "a file", &err) < 0 && !err.msg[0])
        __builtin_trap(); /* a refusal without words */
    if (s.n_servers > WIRE_LINKS_MAX)
        __builtin_trap();
    stub_session_fini(&s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gp_log_init("client", GP_LOG_NONE);
    if (size < 1)
        return 0;
    if (data[0] % 3 == 0)
        hostile_server(data + 1, size - 1);
    else if (data[0] % 3 == 1)
        hostile_scheduler(data + 1, size - 1);
    else
        session_file(data + 1, size - 1);
    close(100);
    return 0;
}
