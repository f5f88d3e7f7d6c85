/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_net.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "gp_srv.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#ifndef SO_PASSRIGHTS /* Linux 6.16 */
#define SO_PASSRIGHTS 83
#endif

/* What a pool's schedulers are called in DNS. */
#define SRV_SERVICE "_gpupool._tcp."

/* Split off the host; what is left starts with ':' or is empty. */
static const char *
host_end(const char *text, const char **host, size_t *len)
{
    const char *end;

    if (*text == '[') {
        end = strchr(text, ']');
        if (!end)
            return NULL;
        *host = text + 1;
        *len = (size_t)(end - text - 1);
        return end + 1;
    }
    end = strrchr(text, ':');
    if (end && memchr(text, ':', (size_t)(end - text)))
        end = NULL; /* several colons without brackets: a bare IPv6 address */
    *host = text;
    *len = end ? (size_t)(end - text) : strlen(text);
    return text + *len;
}

int
gp_net_parse(const char *text, unsigned dflt_port, struct gp_net_addr *ret,
             struct gp_err *err)
{
    const char *host, *rest;
    uint64_t port = dflt_port;
    size_t len;

    rest = host_end(text, &host, &len);
    if (!rest || len >= sizeof(ret->host) || (*rest && *rest != ':'))
        return gp_err_set(err, -EINVAL, "'%s' is not host:port", text);
    if (*rest == ':' && gp_str_u64(rest + 1, 0, 65535, &port) < 0)
        return gp_err_set(err, -EINVAL, "'%s': the port must be 0..65535", text);
    if (!*rest && !dflt_port)
        return gp_err_set(err, -EINVAL, "'%s' has no :port", text);
    memcpy(ret->host, host, len);
    ret->host[len] = 0;
    snprintf(ret->port, sizeof(ret->port), "%u", (unsigned)port);
    return 0;
}

static int
resolve(const char *text, unsigned dflt_port, int flags, struct addrinfo **ret,
        struct gp_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct gp_net_addr addr;
    int r;

    r = gp_net_parse(text, dflt_port, &addr, err);
    if (r < 0)
        return r;
    r = getaddrinfo(addr.host[0] ? addr.host : NULL, addr.port, &hints, ret);
    if (r)
        return gp_err_set(err, -EHOSTUNREACH, "%s: %s", text, gai_strerror(r));
    return 0;
}

static int
listen_on(const struct addrinfo *ai, int backlog)
{
    CLEANUP_FD int fd = -1;
    int one = 1, zero = 0;

    fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, backlog) < 0)
        return -errno;
    return TAKE_FD(fd);
}

/* Whether @text is "unix:/path"; fills *ret_sa when it is. */
static int
unix_addr(const char *text, struct sockaddr_un *ret_sa, struct gp_err *err)
{
    if (strncmp(text, "unix:", 5))
        return 0;
    *ret_sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!text[5] || !gp_str_copy(ret_sa->sun_path, sizeof(ret_sa->sun_path), text + 5))
        return gp_err_set(err, -EINVAL,
                          "'%s': a path of 1..%zu bytes must follow unix:", text,
                          sizeof(ret_sa->sun_path) - 1);
    return 1;
}

static int
unix_connect(const struct sockaddr_un *sa)
{
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static int
unix_listen(const struct sockaddr_un *sa, int backlog)
{
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CLEANUP_FD int probe = unix_connect(sa);

    if (fd < 0)
        return -errno;
    if (probe == -ECONNREFUSED)
        unlink(sa->sun_path);
    gp_net_pass_fds(fd, false);
    if (bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 ||
        listen(fd, backlog) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static int
tcp_listen(const char *text, unsigned dflt_port, int backlog, struct gp_err *err)
{
    struct addrinfo *list;
    int r, fd = -EADDRNOTAVAIL;

    r = resolve(text, dflt_port, AI_PASSIVE, &list, err);
    if (r < 0)
        return r;
    /* With no host, prefer the IPv6 socket: it takes IPv4 too. */
    for (int pass = 0; pass < 2 && fd < 0; pass++)
        for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
            if ((ai->ai_family == AF_INET6) == (pass == 0))
                fd = listen_on(ai, backlog);
    freeaddrinfo(list);
    return fd < 0 ? gp_err_set(err, fd, "cannot listen on %s: %s", text, strerror(-fd))
                  : fd;
}

int
gp_net_listen(const char *text, unsigned dflt_port, int backlog, int *ret_fd,
              struct gp_err *err)
{
    struct sockaddr_un sa;
    int r = unix_addr(text, &sa, err);

    if (r < 0)
        return r;
    if (!r) {
        r = tcp_listen(text, dflt_port, backlog, err);
    } else {
        r = unix_listen(&sa, backlog);
        if (r < 0)
            gp_err_set(err, r, "cannot listen on %s: %s", text, strerror(-r));
    }
    if (r < 0)
        return r;
    *ret_fd = r;
    return 0;
}

int
gp_net_wait(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do
        n = poll(&p, 1, gp_poll_ms(deadline_ns));
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

static int
connect_to(const struct addrinfo *ai, uint64_t deadline_ns)
{
    CLEANUP_FD int fd = -1;
    socklen_t len = sizeof(int);
    int r, so_error = 0, one = 1;

    fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        r = gp_net_wait(fd, POLLOUT, deadline_ns);
        if (r < 0)
            return r;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &so_error, &len) < 0)
            return -errno;
        if (so_error)
            return -so_error;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return TAKE_FD(fd);
}

static int
tcp_connect(const char *text, unsigned dflt_port, uint64_t deadline_ns,
            struct gp_err *err)
{
    struct addrinfo *list;
    int r, fd = -EHOSTUNREACH;

    r = resolve(text, dflt_port, 0, &list, err);
    if (r < 0)
        return r;
    for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
        fd = connect_to(ai, deadline_ns);
    freeaddrinfo(list);
    return fd < 0 ? gp_err_set(err, fd, "cannot connect to %s: %s", text, strerror(-fd))
                  : fd;
}

/* To the first host of the service that answers. */
static int
srv_connect(const char *text, uint64_t deadline_ns, struct gp_err *err)
{
    struct gp_srv_target targets[GP_SRV_TARGETS_MAX];
    char name[GP_SRV_NAME_MAX], address[GP_SRV_NAME_MAX + 8];
    int r, n,
        len =
            snprintf(name, sizeof(name), "%s%s", *text == '_' ? "" : SRV_SERVICE, text);

    if (len < 0 || (size_t)len >= sizeof(name))
        return gp_err_set(err, -EINVAL, "'srv:%s' is too long", text);
    r = n = gp_srv_lookup(name, targets, err);
    for (int i = 0; i < n; i++) {
        uint64_t now = gp_now_ns(), left = deadline_ns - gp_min(deadline_ns, now);

        snprintf(address, sizeof(address), "%.255s:%u", targets[i].host,
                 targets[i].port);
        r = tcp_connect(address, 0, now + left / (uint64_t)(n - i), err);
        if (r >= 0)
            break;
    }
    return r;
}

int
gp_net_connect(const char *text, unsigned dflt_port, uint64_t deadline_ns,
               bool blocking, int *ret_fd, struct gp_err *err)
{
    struct sockaddr_un sa;
    int r = unix_addr(text, &sa, err);

    if (r < 0)
        return r;
    if (!r && strncmp(text, GP_NET_SRV, strlen(GP_NET_SRV)) == 0) {
        r = srv_connect(text + strlen(GP_NET_SRV), deadline_ns, err);
    } else if (!r) {
        r = tcp_connect(text, dflt_port, deadline_ns, err);
    } else {
        r = unix_connect(&sa);
        if (r < 0)
            gp_err_set(err, r, "cannot connect to %s: %s", text, strerror(-r));
    }
    if (r < 0)
        return r;
    if (blocking)
        fcntl(r, F_SETFL, fcntl(r, F_GETFL) & ~O_NONBLOCK);
    *ret_fd = r;
    return 0;
}

int
gp_net_accept(int listen_fd, int *ret_fd)
{
    int one = 1, fd;

    do
        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *ret_fd = fd;
    return 0;
}

static const char *
name_of(const struct sockaddr_storage *sa, socklen_t len, char *buf, size_t size)
{
    char host[64], port[8];

    if (getnameinfo((const struct sockaddr *)sa, len, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(buf, size, "?");
    else
        snprintf(buf, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return buf;
}

const char *
gp_net_peer_name(int fd, char *buf, size_t size)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);

    if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
        len = 0;
    if (len && sa.ss_family == AF_UNIX) /* would be "localhost:" */
        return snprintf(buf, size, "a local process") < 0 ? "" : buf;
    return name_of(&sa, len, buf, size);
}

static size_t
user_bytes(int fd, uint8_t ret[GP_NET_PEER_BYTES])
{
    struct ucred cred = {0};
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return 0;
    ret[0] = 'u'; /* no address has five bytes */
    memcpy(ret + 1, &cred.uid, sizeof(cred.uid));
    return 1 + sizeof(cred.uid);
}

size_t
gp_net_peer_bytes(int fd, uint8_t ret[GP_NET_PEER_BYTES])
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);
    const struct in6_addr *six = &((struct sockaddr_in6 *)&sa)->sin6_addr;
    const void *bytes = &((struct sockaddr_in *)&sa)->sin_addr;
    size_t n = sizeof(struct in_addr);

    if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
        return 0;
    if (sa.ss_family != AF_INET && sa.ss_family != AF_INET6)
        return user_bytes(fd, ret);
    if (sa.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six)) {
        bytes = &six->s6_addr[12];
    } else if (sa.ss_family == AF_INET6) {
        bytes = six;
        n = 8;
    }
    memcpy(ret, bytes, n);
    return n;
}

uint64_t
gp_net_peer_hash(int fd)
{
    uint8_t bytes[GP_NET_PEER_BYTES];
    size_t n = gp_net_peer_bytes(fd, bytes);

    return n ? gp_hash_bytes(gp_hash_process_key(), bytes, n) : 0;
}

const char *
gp_net_own_name(int fd, char *buf, size_t size)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);

    if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
        len = 0;
    return name_of(&sa, len, buf, size);
}

bool
gp_net_hung_up(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           info.tcpi_state != TCP_ESTABLISHED;
}

unsigned
gp_net_port(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);

    if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
        return 0;
    if (sa.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&sa)->sin6_port);
    return sa.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&sa)->sin_port) : 0;
}

void
gp_net_reset_on_close(int fd, bool on)
{
    struct linger linger = {.l_onoff = on};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

void
gp_net_pass_fds(int fd, bool on)
{
    int value = on;

    setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof(value));
}

void
gp_net_close_now(int fd)
{
    gp_net_reset_on_close(fd, false);
    close(fd);
}

bool
gp_net_same_host(int fd)
{
    struct sockaddr_storage own, peer;
    socklen_t own_len = sizeof(own), peer_len = sizeof(peer);

    if (getsockname(fd, (struct sockaddr *)&own, &own_len) < 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_len) < 0 ||
        own.ss_family != peer.ss_family)
        return false;
    if (own.ss_family == AF_INET)
        return ((struct sockaddr_in *)&own)->sin_addr.s_addr ==
               ((struct sockaddr_in *)&peer)->sin_addr.s_addr;
    return own.ss_family == AF_INET6 &&
           memcmp(&((struct sockaddr_in6 *)&own)->sin6_addr,
                  &((struct sockaddr_in6 *)&peer)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}
