/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_https.h"

#include "gp_err.h"
#include "gp_net.h"
#include "kube_cert.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

/* A caller that says nothing for so long is disconnected. */
#define IDLE_S 30
#define CONNECTIONS 256

struct kube_https {
    struct MHD_Daemon *daemon;
    kube_https_answer *answer;
    void *arg;
    int fd; /* listening; handed from one daemon to the next */
    struct kube_cert cert;
};

struct upload {
    char *body;
    size_t len;
    bool too_long;
};

static enum MHD_Result
send_answer(struct MHD_Connection *connection, unsigned status, char *body)
{
    struct MHD_Response *response;
    enum MHD_Result r;

    if (body)
        response =
            MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_FREE);
    else
        response = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "",
                                                   MHD_RESPMEM_PERSISTENT);
    if (!response) {
        free(body);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "application/json");
    r = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return r;
}

static enum MHD_Result
take(struct upload *upload, const char *data, size_t *len)
{
    char *more;

    if (upload->len + *len > KUBE_REQUEST_MAX) {
        upload->too_long = true;
    } else {
        more = realloc(upload->body, upload->len + *len + 1);
        if (!more)
            return MHD_NO;
        memcpy(more + upload->len, data, *len);
        upload->body = more;
        upload->len += *len;
        more[upload->len] = '\0';
    }
    *len = 0;
    return MHD_YES;
}

static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *path,
           const char *method, const char *version, const char *data, size_t *len,
           void **state)
{
    struct kube_https *server = arg;
    struct upload *upload = *state;
    char *body = NULL;
    unsigned status;

    if (!upload) {
        *state = upload = calloc(1, sizeof(*upload));
        return upload ? MHD_YES : MHD_NO;
    }
    if (*len)
        return take(upload, data, len);
    status = upload->too_long
                 ? 413
                 : server->answer(server->arg, method, path,
                                  upload->body ? upload->body : "", upload->len, &body);
    return send_answer(connection, status, body);
}

static void
on_done(void *arg, struct MHD_Connection *connection, void **state,
        enum MHD_RequestTerminationCode code)
{
    struct upload *upload = *state;

    if (upload)
        free(upload->body);
    free(upload);
    *state = NULL;
}

static struct MHD_Daemon *
start(struct kube_https *server)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, server->cert.cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, server->cert.key},
        {MHD_OPTION_END, 0, NULL},
    };

    if (!server->cert.cert)
        tls[0].option = MHD_OPTION_END;
    else
        flags |= MHD_USE_TLS;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, server->fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_done, NULL, MHD_OPTION_CONNECTION_TIMEOUT,
        IDLE_S, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
}

static int
copy_cert(const struct kube_cert *cert, struct kube_cert *ret)
{
    struct kube_cert copy = {0};

    if (cert) {
        copy.cert = strdup(cert->cert);
        copy.key = strdup(cert->key);
        if (!copy.cert || !copy.key) {
            kube_cert_fini(&copy);
            return -ENOMEM;
        }
    }
    *ret = copy;
    return 0;
}

int
kube_https_start(const char *listen, const struct kube_cert *cert,
                 kube_https_answer *answer, void *arg, struct kube_https **ret,
                 struct gp_err *err)
{
    struct kube_https *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return -ENOMEM;
    server->fd = -1;
    server->answer = answer;
    server->arg = arg;
    r = copy_cert(cert, &server->cert);
    if (!r)
        r = gp_net_listen(listen, 0, 128, &server->fd, err);
    if (!r) {
        server->daemon = start(server);
        if (!server->daemon)
            r = gp_err_set(err, -EINVAL,
                           "%s: cannot serve (is the certificate's key its own?)",
                           listen);
    }
    if (r < 0) {
        kube_https_stop(server);
        return r;
    }
    *ret = server;
    return 0;
}

/* The listening socket stays, so no caller is refused between the two. */
int
kube_https_renew(struct kube_https *server, const struct kube_cert *cert,
                 struct gp_err *err)
{
    struct kube_cert copy, before = server->cert;
    struct MHD_Daemon *old = server->daemon, *next;
    int r = copy_cert(cert, &copy);

    if (r < 0)
        return r;
    MHD_quiesce_daemon(old); /* it accepts no more */
    server->cert = copy;
    next = start(server);
    if (!next) {
        kube_cert_fini(&server->cert);
        server->cert = before;
        MHD_stop_daemon(old);
        server->daemon = start(server);
        return gp_err_set(err, -EINVAL, "the new certificate cannot be used");
    }
    server->daemon = next;
    MHD_stop_daemon(old);
    kube_cert_fini(&before);
    return 0;
}

unsigned
kube_https_port(const struct kube_https *server)
{
    return gp_net_port(server->fd);
}

/* MHD closes a listening socket that it still has. */
void
kube_https_stop(struct kube_https *server)
{
    if (!server)
        return;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    else if (server->fd >= 0)
        close(server->fd);
    kube_cert_fini(&server->cert);
    free(server);
}
