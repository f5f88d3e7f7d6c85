/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk over TLS 1.3 as OpenSSL does it by itself: two processes, one loopback
 * connection, SSL_write() and SSL_read() of the whole buffer; what copies over our TLS
 * are compared with.
 *
 * AES-128-GCM, as ours.  --ktls=1 lets OpenSSL use the kernel's TLS where there is
 * one; `raw_tls_kernel` says whether it did.
 */
#include "bench.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024ul * 1024ul)
#define SIZE (64 * MIB)
#define REPEATS 6

static _Noreturn void
die(const char *what)
{
    fprintf(stderr, "raw TLS: %s\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

static void
tcp_pair(int ret[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    if (listener < 0 || bind(listener, (struct sockaddr *)&at, len) < 0 ||
        listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) < 0)
        bench_die("raw TLS: listen");
    ret[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (ret[0] < 0 || connect(ret[0], (struct sockaddr *)&at, len) < 0)
        bench_die("raw TLS: connect");
    ret[1] = accept(listener, NULL, NULL);
    if (ret[1] < 0)
        bench_die("raw TLS: accept");
    close(listener);
    for (int i = 0; i < 2; i++)
        setsockopt(ret[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* A server shows a certificate; what is in it is nobody's business here. */
static void
make_certificate(SSL_CTX *ctx)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *cert = X509_new();

    if (!key || !cert || !X509_gmtime_adj(X509_getm_notBefore(cert), 0) ||
        !X509_gmtime_adj(X509_getm_notAfter(cert), 3600) ||
        !X509_set_pubkey(cert, key) || !X509_sign(cert, key, NULL) ||
        SSL_CTX_use_certificate(ctx, cert) != 1 ||
        SSL_CTX_use_PrivateKey(ctx, key) != 1)
        die("certificate");
    X509_free(cert);
    EVP_PKEY_free(key);
}

static SSL *
open_tls(int fd, int server, long kernel)
{
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    SSL *ssl;

    if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256"))
        die("context");
    if (kernel)
        SSL_CTX_set_options(ctx, SSL_OP_ENABLE_KTLS);
    if (server)
        make_certificate(ctx);
    ssl = SSL_new(ctx);
    if (!ssl || !SSL_set_fd(ssl, fd) ||
        (server ? SSL_accept(ssl) : SSL_connect(ssl)) != 1)
        die("handshake");
    SSL_CTX_free(ctx);
    return ssl;
}

static void
send_all(SSL *ssl, const char *data, size_t size)
{
    for (size_t done; size > 0; data += done, size -= done)
        if (SSL_write_ex(ssl, data, size, &done) != 1)
            die("write");
}

/* False at the end of the stream. */
static int
receive_all(SSL *ssl, char *data, size_t size)
{
    for (size_t done; size > 0; data += done, size -= done)
        if (SSL_read_ex(ssl, data, size, &done) != 1)
            return 0;
    return 1;
}

/* Takes a buffer and acknowledges it, then sends one when asked, until the end. */
static _Noreturn void
peer(SSL *ssl, char *memory)
{
    char one = 0;

    while (receive_all(ssl, memory, SIZE)) {
        send_all(ssl, &one, 1);
        if (!receive_all(ssl, &one, 1))
            break;
        send_all(ssl, memory, SIZE);
    }
    _exit(0);
}

static void
measure(SSL *ssl, char *memory)
{
    struct bench_times up = {0}, down = {0};
    char one = 0;

    for (int i = 0; i <= REPEATS; i++) {
        uint64_t at[3];

        at[0] = bench_now_ns();
        send_all(ssl, memory, SIZE);
        if (!receive_all(ssl, &one, 1))
            die("the peer is gone");
        at[1] = bench_now_ns();
        send_all(ssl, &one, 1);
        if (!receive_all(ssl, memory, SIZE))
            die("the peer is gone");
        at[2] = bench_now_ns();
        if (i == 0)
            continue; /* buffers grow to their sizes */
        bench_times_add(&up, at[1] - at[0]);
        bench_times_add(&down, at[2] - at[1]);
    }
    bench_say("raw_tls_up_64mib_gbps", (double)SIZE / bench_times_percentile(&up, 50));
    bench_say("raw_tls_down_64mib_gbps",
              (double)SIZE / bench_times_percentile(&down, 50));
    bench_times_free(&up);
    bench_times_free(&down);
}

int
main(int argc, char **argv)
{
    long kernel = bench_option(argc, argv, "--ktls", 0);
    char *memory = bench_memory(SIZE);
    int fds[2];
    pid_t child;
    SSL *ssl;

    tcp_pair(fds);
    child = fork();
    if (child < 0)
        bench_die("raw TLS: fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        peer(open_tls(fds[1], 1, kernel), memory);
    }
    close(fds[1]);
    ssl = open_tls(fds[0], 0, kernel);
    bench_say("raw_tls_kernel", BIO_get_ktls_send(SSL_get_wbio(ssl)) &&
                                    BIO_get_ktls_recv(SSL_get_rbio(ssl)));
    measure(ssl, memory);
    SSL_shutdown(ssl);
    SSL_free(ssl);
    close(fds[0]);
    waitpid(child, NULL, 0);
    return 0;
}
