/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL's library context of this process, and what TLS 1.3's keys are made with.
 * Private to tls/.
 *
 * A context of our own: the program whose process this is may use OpenSSL too, and the
 * host's openssl.cnf, which can load code, is not read.  Made at the first use, never
 * freed.  Any thread.
 */
#ifndef TLS_CRYPTO_H
#define TLS_CRYPTO_H

#include "tls.h"

#include <openssl/evp.h>

/* NULL: no memory. */
OSSL_LIB_CTX *tls_crypto_ctx(void);

/* The AEAD of @suite; NULL: no such suite.  Not to be freed. */
const EVP_CIPHER *tls_crypto_cipher(uint32_t suite);

/* HKDF-Expand-Label(@secret, @label, "", @size) with SHA-256; @size <= 32. */
int tls_crypto_expand(const uint8_t secret[TLS_SECRET_SIZE], const char *label,
                      uint8_t *ret, size_t size);

#endif
