/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_handshake.h"

#include "gp_err.h"
#include "tls_crypto.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Of all certificates of a peer: the scheduler's has 300 bytes. */
#define CHAIN_MAX 8192
#define IDENTITY_MAX 256

/* Both hash with SHA-256, so one PSK serves either. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS "X25519:P-256"

struct tls_context {
    unsigned refs; /* its maker, and handshakes */
    SSL_CTX *ssl;
    BIO_METHOD *socket;
    tls_psk_find find;
    void *arg;
};

struct tls_handshake {
    SSL *ssl;
    struct tls_context *ctx;
    tls_psk_find find; /* a server's */
    void *arg;
    bool server;
    uint8_t identity[IDENTITY_MAX];
    size_t identity_size;
    uint8_t psk[TLS_PSK_SIZE];
    uint8_t client_secret[TLS_SECRET_SIZE], server_secret[TLS_SECRET_SIZE];
    unsigned secrets; /* how many of them are known */
};

bool
tls_hello_is(const uint8_t *bytes, size_t n)
{
    return bytes[0] == 22 && (n < 2 || bytes[1] == 3) &&
           (n < 3 || bytes[2] == 1 || bytes[2] == 3);
}

/* ---- what OpenSSL asks ----------------------------------------------------------- */

static struct tls_handshake *
handshake_of(const SSL *ssl)
{
    return SSL_get_app_data(ssl);
}

static int
hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "LABEL client-random secret", as the files for network analysers have it: the only
 * way in which OpenSSL 3.0 hands the secrets out. */
static void
on_secret(const SSL *ssl, const char *line)
{
    struct tls_handshake *hs = handshake_of(ssl);
    const char *hex = strrchr(line, ' ');
    uint8_t *to = strncmp(line, "CLIENT_TRAFFIC_SECRET_0 ", 24) == 0 ? hs->client_secret
                  : strncmp(line, "SERVER_TRAFFIC_SECRET_0 ", 24) == 0
                      ? hs->server_secret
                      : NULL;

    if (!to || !hex || strlen(++hex) != 2 * TLS_SECRET_SIZE)
        return;
    for (unsigned i = 0; i < TLS_SECRET_SIZE; i++)
        to[i] = (uint8_t)(hex_value(hex[2 * i]) << 4 | hex_value(hex[2 * i + 1]));
    hs->secrets++;
}

/* A session that stands for the external PSK. */
static SSL_SESSION *
session_of(SSL *ssl, const uint8_t psk[TLS_PSK_SIZE])
{
    static const uint8_t aes128[] = {0x13, 0x01};
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes128);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && cipher && SSL_SESSION_set1_master_key(session, psk, TLS_PSK_SIZE) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int
on_psk_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_size,
           SSL_SESSION **ret)
{
    struct tls_handshake *hs = handshake_of(ssl);

    *ret = session_of(ssl, hs->psk);
    *id = hs->identity;
    *id_size = hs->identity_size;
    return *ret != NULL;
}

/* With no session the handshake goes on, and fails for want of a certificate. */
static int
on_psk_find(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **ret)
{
    struct tls_handshake *hs = handshake_of(ssl);

    *ret = NULL;
    if (size > sizeof(hs->identity) || hs->find(hs->arg, id, size, hs->psk) < 0)
        return 1;
    memcpy(hs->identity, id, size);
    hs->identity_size = size;
    *ret = session_of(ssl, hs->psk);
    return *ret != NULL;
}

/* Any certificate will do: the caller compares its key. */
static int
on_verify(X509_STORE_CTX *store, void *arg)
{
    return 1;
}

/* ---- sockets --------------------------------------------------------------------- */

/* OpenSSL's own calls write(2), and a peer that has gone would end the process, which
 * may be a program of somebody else's, by SIGPIPE. */
static int
socket_write(BIO *bio, const char *data, int size)
{
    int fd = -1;
    ssize_t n;

    BIO_get_fd(bio, &fd);
    BIO_clear_retry_flags(bio);
    n = send(fd, data, (size_t)size, MSG_NOSIGNAL);
    if (n <= 0 && BIO_sock_should_retry((int)n))
        BIO_set_retry_write(bio);
    return (int)n;
}

static BIO_METHOD *
socket_method(void)
{
    const BIO_METHOD *base = BIO_s_socket();
    BIO_METHOD *own = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");

    if (own && BIO_meth_set_write(own, socket_write) &&
        BIO_meth_set_read(own, BIO_meth_get_read(base)) &&
        BIO_meth_set_ctrl(own, BIO_meth_get_ctrl(base)) &&
        BIO_meth_set_create(own, BIO_meth_get_create(base)) &&
        BIO_meth_set_destroy(own, BIO_meth_get_destroy(base)))
        return own;
    BIO_meth_free(own);
    return NULL;
}

/* ---- contexts -------------------------------------------------------------------- */

static int
context_new(bool server, struct tls_context **ret, struct gp_err *err)
{
    struct tls_context *ctx = calloc(1, sizeof(*ctx));
    OSSL_LIB_CTX *lib = tls_crypto_ctx();

    if (ctx) {
        ctx->refs = 1;
        ctx->socket = socket_method();
    }
    if (ctx && lib)
        ctx->ssl = SSL_CTX_new_ex(lib, NULL,
                                  server ? TLS_server_method() : TLS_client_method());
    if (!ctx || !ctx->socket || !ctx->ssl ||
        !SSL_CTX_set_min_proto_version(ctx->ssl, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(ctx->ssl, SUITES) ||
        !SSL_CTX_set1_groups_list(ctx->ssl, GROUPS)) {
        ERR_clear_error();
        tls_context_free(ctx);
        return gp_err_set(err, -ENOMEM, "OpenSSL does not start");
    }
    SSL_CTX_set_options(ctx->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                      SSL_OP_CIPHER_SERVER_PREFERENCE |
                                      SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(ctx->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx->ssl, 0);
    SSL_CTX_set_max_cert_list(ctx->ssl, CHAIN_MAX);
    SSL_CTX_set_keylog_callback(ctx->ssl, on_secret);
    *ret = ctx;
    return 0;
}

int
tls_context_psk(tls_psk_find find, void *arg, struct tls_context **ret,
                struct gp_err *err)
{
    int r = context_new(true, ret, err);

    if (r < 0)
        return r;
    (*ret)->find = find;
    (*ret)->arg = arg;
    SSL_CTX_set_psk_find_session_callback((*ret)->ssl, on_psk_find);
    return 0;
}

/* A certificate that says only which key it is. */
static X509 *
certificate_of(EVP_PKEY *key)
{
    X509 *cert = X509_new_ex(tls_crypto_ctx(), NULL);
    X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;

    if (name && X509_set_version(cert, X509_VERSION_3) &&
        ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                   (const unsigned char *)"gpupool scheduler", -1, -1,
                                   0) &&
        X509_set_issuer_name(cert, name) &&
        ASN1_TIME_set_string(X509_getm_notBefore(cert), "20200101000000Z") &&
        ASN1_TIME_set_string(X509_getm_notAfter(cert), "99991231235959Z") &&
        X509_set_pubkey(cert, key) && X509_sign(cert, key, NULL))
        return cert;
    X509_free(cert);
    return NULL;
}

int
tls_context_cert(const uint8_t seed[32], struct tls_context **ret, struct gp_err *err)
{
    struct tls_context *ctx = NULL;
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    int r = context_new(true, &ctx, err);

    if (r < 0)
        return r;
    key = EVP_PKEY_new_raw_private_key_ex(tls_crypto_ctx(), "ED25519", NULL, seed, 32);
    cert = key ? certificate_of(key) : NULL;
    if (cert && SSL_CTX_use_certificate(ctx->ssl, cert) == 1 &&
        SSL_CTX_use_PrivateKey(ctx->ssl, key) == 1) {
        *ret = TAKE_PTR(ctx);
    } else {
        r = gp_err_set(err, -EIO, "OpenSSL makes no certificate of the key");
        ERR_clear_error();
    }
    X509_free(cert);
    EVP_PKEY_free(key);
    tls_context_free(ctx);
    return r;
}

void
tls_context_free(struct tls_context *ctx)
{
    if (!ctx || --ctx->refs > 0)
        return;
    SSL_CTX_free(ctx->ssl);
    BIO_meth_free(ctx->socket);
    free(ctx);
}

/* ---- handshakes ------------------------------------------------------------------ */

static int
handshake_new(struct tls_context *ctx, int fd, struct tls_handshake **ret,
              struct gp_err *err)
{
    CLEANUP(tls_handshake_freep) struct tls_handshake *hs = calloc(1, sizeof(*hs));
    BIO *bio = BIO_new(ctx->socket);

    if (hs)
        hs->ssl = SSL_new(ctx->ssl);
    if (!bio || !hs || !hs->ssl) {
        ERR_clear_error();
        BIO_free(bio);
        return gp_err_set(err, -ENOMEM, "no memory for a handshake");
    }
    BIO_set_fd(bio, fd, BIO_NOCLOSE);
    SSL_set_bio(hs->ssl, bio, bio);
    SSL_set_app_data(hs->ssl, hs);
    hs->ctx = ctx;
    ctx->refs++;
    *ret = TAKE_PTR(hs);
    return 0;
}

int
tls_handshake_server(struct tls_context *ctx, int fd, struct tls_handshake **ret,
                     struct gp_err *err)
{
    int r = handshake_new(ctx, fd, ret, err);

    if (r < 0)
        return r;
    (*ret)->server = true;
    (*ret)->find = ctx->find;
    (*ret)->arg = ctx->arg;
    SSL_set_accept_state((*ret)->ssl);
    return 0;
}

int
tls_handshake_client(const struct tls_psk *psk, int fd, struct tls_handshake **ret,
                     struct gp_err *err)
{
    CLEANUP(tls_context_freep) struct tls_context *ctx = NULL;
    struct tls_handshake *hs;
    int r =
        psk && psk->identity_size > IDENTITY_MAX
            ? gp_err_set(err, -EINVAL, "an identity of %zu bytes", psk->identity_size)
            : context_new(false, &ctx, err);

    if (r < 0)
        return r;
    SSL_CTX_set_verify(ctx->ssl, SSL_VERIFY_PEER, NULL);
    if (psk)
        SSL_CTX_set_psk_use_session_callback(ctx->ssl, on_psk_use);
    else
        SSL_CTX_set_cert_verify_callback(ctx->ssl, on_verify, NULL);
    r = handshake_new(ctx, fd, &hs, err);
    if (r < 0)
        return r;
    if (psk) {
        memcpy(hs->identity, psk->identity, psk->identity_size);
        hs->identity_size = psk->identity_size;
        memcpy(hs->psk, psk->key, sizeof(hs->psk));
    }
    SSL_set_connect_state(hs->ssl);
    *ret = hs;
    return 0;
}

/* OpenSSL's words for what went wrong, and our code for it. */
static int
handshake_failed(const struct tls_handshake *hs, int kind, struct gp_err *err)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code), lost = errno;
    const char *words = ERR_reason_error_string(code);

    ERR_clear_error();
    if (kind == SSL_ERROR_SYSCALL || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return gp_err_set(
            err, -ECONNRESET,
            "the other side closed the connection in the TLS handshake%s%s",
            lost ? ": " : "", lost ? strerror(lost) : "");
    if (ERR_GET_LIB(code) != ERR_LIB_SSL)
        return gp_err_set(err, -EPROTO, "TLS handshake: %s", words ? words : "?");
    switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
        return gp_err_set(err, -EPROTONOSUPPORT,
                          "TLS handshake: the other side does not speak TLS 1.3");
    case SSL_R_BAD_EXTENSION: /* a server's: the binder of the key is wrong */
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return gp_err_set(err, -EKEYREJECTED,
                          hs->server ? "TLS handshake: the client has no key that fits"
                                     : "TLS handshake: the server has no key that fits "
                                       "the session's");
    default:
        return gp_err_set(err, -EPROTO, "TLS handshake: %s", words ? words : "?");
    }
}

int
tls_handshake_step(struct tls_handshake *hs, short *ret_events, struct gp_err *err)
{
    int n, kind;

    ERR_clear_error();
    errno = 0;
    n = SSL_do_handshake(hs->ssl);
    if (n == 1 && hs->secrets != 2)
        return gp_err_set(err, -EIO, "OpenSSL did not hand out the keys");
    if (n == 1)
        return 0;
    kind = SSL_get_error(hs->ssl, n);
    if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE)
        return handshake_failed(hs, kind, err);
    *ret_events = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    return -EAGAIN;
}

void
tls_handshake_keys(const struct tls_handshake *hs, struct tls_keys *ret)
{
    const SSL_CIPHER *cipher = SSL_get_current_cipher(hs->ssl);

    *ret = (struct tls_keys){.suite = SSL_CIPHER_get_protocol_id(cipher)};
    memcpy(ret->tx.secret, hs->server ? hs->server_secret : hs->client_secret,
           TLS_SECRET_SIZE);
    memcpy(ret->rx.secret, hs->server ? hs->client_secret : hs->server_secret,
           TLS_SECRET_SIZE);
}

const void *
tls_handshake_identity(const struct tls_handshake *hs, size_t *ret_size)
{
    *ret_size = hs->identity_size;
    return hs->identity;
}

int
tls_handshake_public(const struct tls_handshake *hs, uint8_t ret[TLS_PUBLIC_SIZE])
{
    X509 *cert = SSL_get0_peer_certificate(hs->ssl);
    EVP_PKEY *key = cert ? X509_get0_pubkey(cert) : NULL;
    size_t size = TLS_PUBLIC_SIZE;

    if (!key || !EVP_PKEY_is_a(key, "ED25519") ||
        !EVP_PKEY_get_raw_public_key(key, ret, &size) || size != TLS_PUBLIC_SIZE)
        return -EKEYREJECTED;
    return 0;
}

void
tls_handshake_free(struct tls_handshake *hs)
{
    if (!hs)
        return;
    if (hs->ssl)
        SSL_set_quiet_shutdown(hs->ssl, 1);
    SSL_free(hs->ssl);
    tls_context_free(hs->ctx);
    explicit_bzero(hs, sizeof(*hs));
    free(hs);
}
