/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_crypto.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>

static struct {
    OSSL_LIB_CTX *ctx;
    EVP_CIPHER *aes128, *chacha20;
} crypto;
static pthread_once_t crypto_once = PTHREAD_ONCE_INIT;

static void
crypto_start(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
    crypto.ctx = OSSL_LIB_CTX_new();
    if (!crypto.ctx)
        return;
    crypto.aes128 = EVP_CIPHER_fetch(crypto.ctx, "AES-128-GCM", NULL);
    crypto.chacha20 = EVP_CIPHER_fetch(crypto.ctx, "ChaCha20-Poly1305", NULL);
}

OSSL_LIB_CTX *
tls_crypto_ctx(void)
{
    pthread_once(&crypto_once, crypto_start);
    return crypto.ctx;
}

const EVP_CIPHER *
tls_crypto_cipher(uint32_t suite)
{
    tls_crypto_ctx();
    return suite == TLS_SUITE_AES128     ? crypto.aes128
           : suite == TLS_SUITE_CHACHA20 ? crypto.chacha20
                                         : NULL;
}

int
tls_crypto_expand(const uint8_t secret[TLS_SECRET_SIZE], const char *label,
                  uint8_t *ret, size_t size)
{
    static const char prefix[] = "tls13 ";
    size_t prefix_len = sizeof(prefix) - 1, label_len = strlen(label), n = 0, out_len;
    uint8_t info[64], out[TLS_SECRET_SIZE];

    assert(size <= sizeof(out) && prefix_len + label_len + 5 <= sizeof(info));
    info[n++] = 0;
    info[n++] = (uint8_t)size;
    info[n++] = (uint8_t)(prefix_len + label_len);
    memcpy(info + n, prefix, prefix_len);
    n += prefix_len;
    memcpy(info + n, label, label_len);
    n += label_len;
    info[n++] = 0; /* no context */
    info[n++] = 1; /* the first, and here the only block of HKDF-Expand */
    if (!EVP_Q_mac(tls_crypto_ctx(), "HMAC", NULL, "SHA256", NULL, secret,
                   TLS_SECRET_SIZE, info, n, out, sizeof(out), &out_len))
        return -ENOMEM;
    memcpy(ret, out, size);
    OPENSSL_cleanse(out, sizeof(out));
    return 0;
}
