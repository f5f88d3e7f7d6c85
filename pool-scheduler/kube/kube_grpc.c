/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_grpc.h"

#include "gp_err.h"
#include "gp_net.h"
#include "gp_str.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Calls that one connection may have open; further ones are refused by HTTP/2. */
#define STREAMS_MAX 16
#define PREFIX 5 /* of a gRPC message: compressed or not, and its length */

struct kube_grpc_conn {
    struct kube_grpc *grpc;
    struct gp_loop_fd fd;
    nghttp2_session *session;
    struct call *calls; /* that are not over */
    struct kube_grpc_conn *next, **link;
};

/* One call. */
struct call {
    struct call *next, **link; /* of its connection */
    char path[256];
    uint8_t *request, *reply; /* with their prefixes */
    size_t len, reply_len, sent;
    char status[8];
};

/* ------------------------------------------------------------------- calls -- */

static void
call_free(struct call *call)
{
    if (!call)
        return;
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    free(call->request);
    free(call->reply);
    free(call);
}

#define HEADER(n, v)                                                                   \
    {                                                                                  \
        (uint8_t *)(n), (uint8_t *)(v), sizeof(n) - 1, strlen(v), NGHTTP2_NV_FLAG_NONE \
    }

static int
send_trailers(nghttp2_session *session, int32_t id, const struct call *call)
{
    nghttp2_nv trailers[] = {HEADER("grpc-status", call->status)};

    return nghttp2_submit_trailer(session, id, trailers, ARRAY_SIZE(trailers));
}

static ssize_t
read_reply(nghttp2_session *session, int32_t id, uint8_t *buf, size_t size,
           uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct call *call = source->ptr;
    size_t n = gp_min(size, call->reply_len - call->sent);

    memcpy(buf, call->reply + call->sent, n);
    call->sent += n;
    if (call->sent == call->reply_len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (send_trailers(session, id, call) != 0)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

static int
send_reply(nghttp2_session *session, int32_t id, struct call *call)
{
    nghttp2_nv headers[] = {HEADER(":status", "200"),
                            HEADER("content-type", "application/grpc")};
    nghttp2_data_provider data = {.source.ptr = call, .read_callback = read_reply};

    return nghttp2_submit_response(session, id, headers, ARRAY_SIZE(headers), &data);
}

/* Without a message the trailers are the headers. */
static int
send_status(nghttp2_session *session, int32_t id, const struct call *call)
{
    nghttp2_nv headers[] = {HEADER(":status", "200"),
                            HEADER("content-type", "application/grpc"),
                            HEADER("grpc-status", call->status)};

    return nghttp2_submit_response(session, id, headers, ARRAY_SIZE(headers), NULL);
}

static uint32_t
message_len(const uint8_t *prefix)
{
    return (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 |
           (uint32_t)prefix[3] << 8 | prefix[4];
}

static int
decide(struct kube_grpc *grpc, struct call *call)
{
    uint8_t *reply = NULL;
    size_t len = 0;
    int status;

    if (call->len < PREFIX || call->request[0] != 0 ||
        message_len(call->request) != call->len - PREFIX)
        return KUBE_GRPC_INVALID;
    status = grpc->answer(grpc->arg, call->path, call->request + PREFIX,
                          call->len - PREFIX, &reply, &len);
    if (status == KUBE_GRPC_OK) {
        call->reply = calloc(1, PREFIX + len);
        call->reply_len = PREFIX + len;
        if (call->reply) {
            for (int i = 0; i < 4; i++)
                call->reply[1 + i] = (uint8_t)(len >> (24 - 8 * i));
            if (len)
                memcpy(call->reply + PREFIX, reply, len);
        }
    }
    free(reply);
    return status;
}

/* The request is whole. */
static int
answer(struct kube_grpc_conn *conn, int32_t id, struct call *call)
{
    int status = decide(conn->grpc, call);

    snprintf(call->status, sizeof(call->status), "%d", status);
    if (status == KUBE_GRPC_OK && !call->reply)
        return NGHTTP2_ERR_NOMEM;
    return status == KUBE_GRPC_OK ? send_reply(conn->session, id, call)
                                  : send_status(conn->session, id, call);
}

/* --------------------------------------------------- what libnghttp2 calls -- */

static int
on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct kube_grpc_conn *conn = arg;
    struct call *call;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    call = calloc(1, sizeof(*call));
    if (!call)
        return NGHTTP2_ERR_NOMEM;
    call->next = conn->calls;
    if (call->next)
        call->next->link = &call->next;
    call->link = &conn->calls;
    conn->calls = call;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

static int
on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
          size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
          void *arg)
{
    struct call *call =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (call && name_len == 5 && memcmp(name, ":path", 5) == 0)
        snprintf(call->path, sizeof(call->path), "%.*s", (int)gp_min(value_len, 255u),
                 (const char *)value);
    return 0;
}

static int
on_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
         size_t len, void *arg)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, id);
    uint8_t *more;

    if (!call)
        return 0;
    if (call->len + len > KUBE_GRPC_MESSAGE_MAX + PREFIX)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    more = realloc(call->request, call->len + len);
    if (!more)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(more + call->len, data, len);
    call->request = more;
    call->len += len;
    return 0;
}

static int
on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct kube_grpc_conn *conn = arg;
    struct call *call;

    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    return call && answer(conn, frame->hd.stream_id, call) != 0
               ? NGHTTP2_ERR_CALLBACK_FAILURE
               : 0;
}

static int
on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    call_free(nghttp2_session_get_stream_user_data(session, id));
    nghttp2_session_set_stream_user_data(session, id, NULL);
    return 0;
}

static ssize_t
on_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags, void *arg)
{
    struct kube_grpc_conn *conn = arg;
    ssize_t n = send(conn->fd.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n >= 0)
        return n;
    return errno == EAGAIN ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ------------------------------------------------------------- connections -- */

static void
conn_free(struct kube_grpc_conn *conn)
{
    if (!conn)
        return;
    if (conn->link) {
        *conn->link = conn->next;
        if (conn->next)
            conn->next->link = conn->link;
        conn->grpc->n_conns--;
    }
    gp_loop_fd_del(&conn->fd);
    nghttp2_session_del(conn->session);
    /* Of streams that were open: libnghttp2 closes none at its end. */
    while (conn->calls)
        call_free(conn->calls);
    close(conn->fd.fd);
    free(conn);
}

static void
on_fd(struct gp_loop_fd *src, uint32_t revents)
{
    struct kube_grpc_conn *conn = container_of(src, struct kube_grpc_conn, fd);
    uint8_t buf[16384];
    ssize_t n = 0;

    if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        n = recv(src->fd, buf, sizeof(buf), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN) ||
            (n > 0 && nghttp2_session_mem_recv(conn->session, buf, (size_t)n) < 0)) {
            conn_free(conn);
            return;
        }
    }
    if (nghttp2_session_send(conn->session) != 0 ||
        (!nghttp2_session_want_read(conn->session) &&
         !nghttp2_session_want_write(conn->session))) {
        conn_free(conn);
        return;
    }
    gp_loop_fd_set(src, nghttp2_session_want_write(conn->session) ? EPOLLIN | EPOLLOUT
                                                                  : EPOLLIN);
}

static int
make_session(struct kube_grpc_conn *conn)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX}};
    int r = nghttp2_session_callbacks_new(&callbacks);

    if (r != 0)
        return -ENOMEM;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    r = nghttp2_session_server_new(&conn->session, callbacks, conn);
    nghttp2_session_callbacks_del(callbacks);
    if (r != 0)
        return -ENOMEM;
    r = nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
                                ARRAY_SIZE(settings));
    return r != 0 ? -ENOMEM : 0;
}

static void
accept_one(struct kube_grpc *grpc, int fd)
{
    struct kube_grpc_conn *conn = calloc(1, sizeof(*conn));

    if (!conn || grpc->n_conns >= KUBE_GRPC_CONNS_MAX) {
        free(conn);
        close(fd);
        return;
    }
    conn->grpc = grpc;
    conn->fd.fd = fd;
    if (make_session(conn) < 0 ||
        gp_loop_fd_add(grpc->loop, &conn->fd, fd, EPOLLIN | EPOLLOUT, on_fd) < 0) {
        conn_free(conn);
        return;
    }
    conn->next = grpc->conns;
    if (conn->next)
        conn->next->link = &conn->next;
    conn->link = &grpc->conns;
    grpc->conns = conn;
    grpc->n_conns++;
}

static void
on_accept(struct gp_loop_fd *src, uint32_t revents)
{
    struct kube_grpc *grpc = container_of(src, struct kube_grpc, listener);
    int fd;

    while (gp_net_accept(src->fd, &fd) == 0)
        accept_one(grpc, fd);
}

int
kube_grpc_start(struct kube_grpc *grpc, struct gp_loop *loop, const char *path,
                struct gp_err *err)
{
    CLEANUP_FREE char *address = gp_str_printf("unix:%s", path);
    int fd, r;

    if (!address)
        return -ENOMEM;
    grpc->loop = loop;
    r = gp_net_listen(address, 1, KUBE_GRPC_CONNS_MAX, &fd, err);
    if (r < 0)
        return r;
    r = gp_loop_fd_add(loop, &grpc->listener, fd, EPOLLIN, on_accept);
    if (r < 0)
        close(fd);
    return r;
}

void
kube_grpc_stop(struct kube_grpc *grpc)
{
    while (grpc->conns)
        conn_free(grpc->conns);
    if (!grpc->listener.loop)
        return;
    gp_loop_fd_del(&grpc->listener);
    close(grpc->listener.fd);
}
