/* SPDX-License-Identifier: Apache-2.0 */
/* The webhook's server: what its answers may rely on. */
#include "ut.h"

#include "gp_str.h"
#include "gp_time.h"
#include "kube_cert.h"
#include "kube_https.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct kube_https_limits LIMITS = {1000, 100};
static const char *const NAMES[] = {"localhost", NULL};

/* An answer that is under way until it is let go, or @patient is not there. */
struct slow {
    atomic_int inside, most, begun;
    atomic_bool go;
};

static unsigned
answer(void *arg, const char *method, const char *path, const char *body, size_t len,
       char **ret_body)
{
    struct slow *slow = arg;
    int inside = ++slow->inside;

    if (inside > slow->most)
        slow->most = inside;
    slow->begun++;
    if (strcmp(path, "/slow") == 0)
        while (!slow->go)
            gp_sleep_ns(GP_NS_PER_MS);
    slow->inside--;
    return 200;
}

struct request {
    unsigned port;
    const char *path;
    pthread_t thread;
    char reply[16];
};

/* One request over a TLS connection of its own. */
static void *
ask(void *arg)
{
    struct request *req = arg;
    CLEANUP_FREE char *address = gp_str_printf("localhost:%u", req->port);
    CLEANUP_FREE char *text = gp_str_printf(
        "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", req->path);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    BIO *bio = BIO_new_ssl_connect(ctx);

    BIO_set_conn_hostname(bio, address);
    if (BIO_write(bio, text, (int)strlen(text)) > 0)
        BIO_read(bio, req->reply, sizeof(req->reply) - 1);
    BIO_free_all(bio);
    SSL_CTX_free(ctx);
    return NULL;
}

static void *
renew(void *arg)
{
    struct kube_cert cert;

    assert_int_equal(kube_cert_make(NAMES, 3600, &cert, NULL), 0);
    assert_int_equal(kube_https_renew(arg, &cert, NULL), 0);
    kube_cert_fini(&cert);
    return NULL;
}

static void
await(const atomic_int *what, int wanted)
{
    uint64_t end = gp_now_ns() + 20 * GP_NS_PER_S;

    while (*what < wanted && gp_now_ns() < end)
        gp_sleep_ns(GP_NS_PER_MS);
    assert_true(*what >= wanted);
}

/* While the certificate changes, requests that the old daemon has and those that the
 * new one takes are answered one after the other: what an answer uses, such as the
 * connection to the API server, is for one thread at a time. */
static void
answers_are_given_one_at_a_time_while_the_certificate_changes(void **state)
{
    struct slow slow = {0};
    struct kube_cert cert;
    struct kube_https *server;
    struct request first = {.path = "/slow"}, second = {.path = "/quick"};
    pthread_t renewer;

    assert_int_equal(kube_cert_make(NAMES, 3600, &cert, NULL), 0);
    assert_int_equal(
        kube_https_start("localhost:0", &cert, &LIMITS, answer, &slow, &server, NULL),
        0);
    first.port = second.port = kube_https_port(server);
    assert_int_equal(pthread_create(&first.thread, NULL, ask, &first), 0);
    await(&slow.begun, 1);
    assert_int_equal(pthread_create(&renewer, NULL, renew, server), 0);
    assert_int_equal(pthread_create(&second.thread, NULL, ask, &second), 0);
    gp_sleep_ns(GP_NS_PER_S / 2); /* for as long a second one would be begun */
    slow.go = true;
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    pthread_join(renewer, NULL);
    assert_string_equal(first.reply, "HTTP/1.1 200 OK");
    assert_string_equal(second.reply, "HTTP/1.1 200 OK");
    assert_int_equal(slow.begun, 2);
    assert_int_equal(slow.most, 1);
    kube_https_stop(server);
    kube_cert_fini(&cert);
}

static void
connect_to(unsigned port, int *ret)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    *ret = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*ret >= 0);
    assert_int_equal(connect(*ret, (struct sockaddr *)&to, sizeof(to)), 0);
}

/* The status of a POST of @body, 0 when the connection ended without one. */
static int
post(unsigned port, const char *body)
{
    CLEANUP_FREE char *text = gp_str_printf("POST /quick HTTP/1.1\r\nHost: a\r\n"
                                            "Content-Length: %zu\r\n\r\n%s",
                                            strlen(body), body);
    char reply[16] = "";
    int fd, status = 0;

    connect_to(port, &fd);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    if (recv(fd, reply, sizeof(reply) - 1, MSG_WAITALL) > 0)
        sscanf(reply, "HTTP/1.1 %d", &status);
    close(fd);
    return status;
}

static void
serve_plainly(struct slow *slow, struct kube_https **ret)
{
    assert_int_equal(
        kube_https_start("127.0.0.1:0", NULL, &LIMITS, answer, slow, ret, NULL), 0);
}

/* A small text may hold so many values that the parser takes a hundred times its size.
 */
static void
too_long_a_body_and_too_many_values_are_refused_unparsed(void **state)
{
    struct slow slow = {0};
    struct kube_https *server;
    char body[1002] = "";

    serve_plainly(&slow, &server);
    memset(body, ' ', 1000);
    assert_int_equal(post(kube_https_port(server), body), 200);
    memset(body, ' ', 1001);
    assert_int_equal(post(kube_https_port(server), body), 413);
    memset(body, 0, sizeof(body));
    memset(body, '[', 99);
    assert_int_equal(post(kube_https_port(server), body), 200);
    memset(body, '[', 100);
    assert_int_equal(post(kube_https_port(server), body), 413);
    assert_int_equal(slow.begun, 2);
    kube_https_stop(server);
}

static void
values_are_counted_outside_of_strings(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } CASES[] = {{"", 1},
                 {"[]", 2},
                 {"{\"a\":[1,2]}", 5},
                 {"\"[[[,,:{\"", 1},
                 {"[\"\\\"[\",\"\\\\\",1]", 4}};

    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
        assert_int_equal(kube_https_values(CASES[i].text, strlen(CASES[i].text)),
                         CASES[i].n);
}

/* A POST of @size bytes, of which all but the last are sent. */
static int
begin_post(unsigned port, size_t size)
{
    CLEANUP_FREE char *head = gp_str_printf("POST /quick HTTP/1.1\r\nHost: a\r\n"
                                            "Content-Length: %zu\r\n\r\n",
                                            size);
    CLEANUP_FREE char *body = calloc(1, size);
    int fd;

    connect_to(port, &fd);
    assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
    assert_int_equal(send(fd, body, size - 1, MSG_NOSIGNAL), size - 1);
    return fd;
}

static int
end_post(int fd)
{
    char reply[16] = "";
    int status = 0;

    assert_int_equal(send(fd, " ", 1, MSG_NOSIGNAL), 1);
    if (recv(fd, reply, sizeof(reply) - 1, MSG_WAITALL) > 0)
        sscanf(reply, "HTTP/1.1 %d", &status);
    close(fd);
    return status;
}

/* Nothing that was sent to the server at @port waits to be read. */
static void
await_read(unsigned port)
{
    char line[256], key[8];
    bool busy = true;

    snprintf(key, sizeof(key), ":%04X ", port);
    while (busy) {
        FILE *sockets = fopen("/proc/net/tcp", "re");

        assert_non_null(sockets);
        busy = false;
        while (fgets(line, sizeof(line), sockets))
            busy |= strstr(line, key) && !strstr(line, " 00000000:00000000 ");
        fclose(sockets);
        gp_sleep_ns(GP_NS_PER_MS);
    }
}

static void
of_bodies_that_are_too_much_together_the_largest_is_refused(void **state)
{
    static const struct kube_https_limits large = {KUBE_HTTPS_BUFFERED_MAX, 100};
    const size_t mib = 1024 * 1024;
    struct slow slow = {0};
    struct kube_https *server;
    int some, most, few;

    assert_int_equal(
        kube_https_start("127.0.0.1:0", NULL, &large, answer, &slow, &server, NULL), 0);
    some = begin_post(kube_https_port(server), 11 * mib);
    most = begin_post(kube_https_port(server), 19 * mib);
    few = begin_post(kube_https_port(server), 3 * mib);
    await_read(kube_https_port(server));
    assert_int_equal(end_post(few), 200);
    assert_int_equal(end_post(most), 503);
    assert_int_equal(end_post(some), 200);
    /* Their memory is free again. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(end_post(begin_post(kube_https_port(server), 19 * mib)), 200);
    kube_https_stop(server);
}

/* Connections that ask nothing end for those that come, the oldest first. */
static void
an_address_with_many_idle_connections_crowds_out_nobody(void **state)
{
    struct slow slow = {0};
    struct kube_https *server;
    int fds[260];
    char byte;

    serve_plainly(&slow, &server);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        connect_to(kube_https_port(server), &fds[i]);
    assert_int_equal(post(kube_https_port(server), "{}"), 200);
    assert_int_equal(recv(fds[0], &byte, 1, 0), 0);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
    kube_https_stop(server);
}

/* One that sends a byte now and then is never idle. */
static void
a_request_that_trickles_is_ended(void **state)
{
    struct slow slow = {0};
    struct kube_https *server;
    uint64_t end = gp_now_ns() + 20 * GP_NS_PER_S;
    int fd;

    serve_plainly(&slow, &server);
    connect_to(kube_https_port(server), &fd);
    assert_int_equal(send(fd, "GET /quick HTTP/1.1\r\nX: ", 24, MSG_NOSIGNAL), 24);
    while (send(fd, "x", 1, MSG_NOSIGNAL) == 1 && gp_now_ns() < end)
        gp_sleep_ns(GP_NS_PER_S / 5);
    assert_true(gp_now_ns() < end);
    close(fd);
    kube_https_stop(server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_long_a_body_and_too_many_values_are_refused_unparsed),
        cmocka_unit_test(values_are_counted_outside_of_strings),
        cmocka_unit_test(of_bodies_that_are_too_much_together_the_largest_is_refused),
        cmocka_unit_test(an_address_with_many_idle_connections_crowds_out_nobody),
        cmocka_unit_test(a_request_that_trickles_is_ended),
        cmocka_unit_test(answers_are_given_one_at_a_time_while_the_certificate_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
