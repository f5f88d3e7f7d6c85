/* SPDX-License-Identifier: Apache-2.0 */
/* The webhook's server: what its answers may rely on. */
#include "ut.h"

#include "gp_str.h"
#include "gp_time.h"
#include "kube_cert.h"
#include "kube_https.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

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
        kube_https_start("localhost:0", &cert, answer, &slow, &server, NULL), 0);
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_given_one_at_a_time_while_the_certificate_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
