/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_grpc.h"

#include "gp_file.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"

#include <endian.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In front of a message: whether it is compressed, and its length. */
#define PREFIX 5

struct etcd_grpc {
    nghttp2_session *session;
    int fd;
    char *address;
    const char *method;
};

static void
fail(const char *words)
{
    fprintf(stderr, "etcd_wire: gRPC: %s\n", words);
    exit(1);
}

/* ---------------------------------------------------------------- callbacks -- */

static ssize_t
read_body(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t max,
          uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct etcd_grpc_call *call = source->ptr;
    uint8_t prefix[PREFIX] = {0};
    size_t n = 0;

    (void)session, (void)stream, (void)arg;
    memcpy(prefix + 1, &(uint32_t){htobe32((uint32_t)call->size)}, 4);
    while (call->sent < PREFIX && n < max)
        buf[n++] = prefix[call->sent++];
    if (n < max) {
        size_t part = gp_min(max - n, call->size + PREFIX - call->sent);

        memcpy(buf + n, call->message + (call->sent - PREFIX), part);
        call->sent += part;
        n += part;
    }
    if (call->sent == call->size + PREFIX)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int
on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
          size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
          void *arg)
{
    struct etcd_grpc_call *call =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags, (void)arg;
    if (call && name_len == 11 && !memcmp(name, "grpc-status", 11))
        call->ok = value_len == 1 && *value == '0';
    return 0;
}

static int
on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
        size_t len, void *arg)
{
    struct etcd_grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags, (void)arg;
    if (call->got + len > sizeof(call->answer))
        fail("the answer is too long");
    memcpy(call->answer + call->got, data, len);
    call->got += len;
    return 0;
}

static int
on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
    struct etcd_grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);
    bool ok = call->ok && !error && call->got >= PREFIX;

    (void)arg;
    call->done(call, ok ? call->answer + PREFIX : NULL, ok ? call->got - PREFIX : 0);
    return 0;
}

/* -------------------------------------------------------------- a connection -- */

struct etcd_grpc *
etcd_grpc_new(const char *address, const char *method)
{
    struct etcd_grpc *grpc = calloc(1, sizeof(*grpc));
    nghttp2_session_callbacks *callbacks;

    if (!grpc || !(grpc->address = gp_str_printf("%s", address)) ||
        nghttp2_session_callbacks_new(&callbacks))
        fail("out of memory");
    grpc->method = method;
    if (gp_net_connect(address, 0, gp_now_ns() + 10 * GP_NS_PER_S, true, &grpc->fd,
                       NULL) < 0)
        fail("etcd cannot be reached");
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_client_new(&grpc->session, callbacks, grpc) ||
        nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, NULL, 0))
        fail("out of memory");
    nghttp2_session_callbacks_del(callbacks);
    return grpc;
}

void
etcd_grpc_free(struct etcd_grpc *grpc)
{
    nghttp2_session_del(grpc->session);
    close(grpc->fd);
    free(grpc->address);
    free(grpc);
}

#define HEADER(name_, value_)                                                          \
    {                                                                                  \
        .name = (uint8_t *)(uintptr_t)(name_), .namelen = strlen(name_),               \
        .value = (uint8_t *)(uintptr_t)(value_), .valuelen = strlen(value_)            \
    }

void
etcd_grpc_start(struct etcd_grpc *grpc, struct etcd_grpc_call *call)
{
    const nghttp2_nv headers[] = {
        HEADER(":method", "POST"),
        HEADER(":scheme", "http"),
        HEADER(":path", grpc->method),
        HEADER(":authority", grpc->address),
        HEADER("content-type", "application/grpc"),
        HEADER("te", "trailers"),
    };
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_body};

    call->sent = call->got = 0;
    call->ok = false;
    if (nghttp2_submit_request(grpc->session, NULL, headers, ARRAY_SIZE(headers), &body,
                               call) < 0)
        fail("a call cannot be started");
}

/* All frames that are ready, in one write. */
static void
flush(struct etcd_grpc *grpc)
{
    CLEANUP_FREE uint8_t *all = NULL;
    size_t size = 0;
    const uint8_t *part;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(grpc->session, &part)) > 0) {
        uint8_t *more = realloc(all, size + (size_t)n);

        if (!more)
            fail("out of memory");
        all = more;
        memcpy(all + size, part, (size_t)n);
        size += (size_t)n;
    }
    if (n < 0 || (size && gp_file_write_all(grpc->fd, all, size) < 0))
        fail("etcd ended the connection");
}

void
etcd_grpc_run(struct etcd_grpc *grpc)
{
    static uint8_t buf[(size_t)64 * 1024];
    ssize_t n;

    flush(grpc);
    n = read(grpc->fd, buf, sizeof(buf));
    if (n <= 0 || nghttp2_session_mem_recv(grpc->session, buf, (size_t)n) < 0)
        fail("etcd ended the connection");
}
