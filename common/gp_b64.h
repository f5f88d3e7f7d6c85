/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base64url without padding (RFC 4648 section 5), for tickets, keys and secrets in the
 * environment.  No state, any thread.
 *
 * Our own because the client library decodes a secret with it and loads no libcrypto,
 * and because OpenSSL knows only the other alphabet, with padding, and takes several
 * texts for one value.  That other base64, of Kubernetes' JSON, is OpenSSL's
 * (kube_cert.h).
 */
#ifndef GP_B64_H
#define GP_B64_H

#include "gp_base.h"

/* malloc'ed, terminated text of @len bytes; NULL on lack of memory. */
char *gp_b64_encode(const void *data, size_t len);

/* Decode @len characters into a malloc'ed buffer.  -EINVAL: a character outside the
 * alphabet, an impossible length, or non-zero spare bits (one text per value). */
int gp_b64_decode(const char *text, size_t len, uint8_t **ret, size_t *ret_len);

#endif
