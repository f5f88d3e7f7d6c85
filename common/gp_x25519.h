/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X25519 (RFC 7748): two sides that know each other's public key and their own secret
 * get the same 32 bytes, which nobody else can compute.
 *
 * Our own, because the client's library depends on libc only.  Takes the same time for
 * all secrets.  No state, any thread.
 */
#ifndef GP_X25519_H
#define GP_X25519_H

#include "gp_base.h"

#include <stdint.h>

#define GP_X25519_SIZE 32

/* What both sides share.  -EBADMSG: @other is one of the few points for which the
 * result does not depend on the secret. */
int gp_x25519(const uint8_t secret[GP_X25519_SIZE], const uint8_t other[GP_X25519_SIZE],
              uint8_t ret_shared[GP_X25519_SIZE]);

/* The public key of @secret, which may be any random bytes. */
void gp_x25519_public(const uint8_t secret[GP_X25519_SIZE],
                      uint8_t ret_public[GP_X25519_SIZE]);

/* A new secret.  -EIO: the kernel has no random bytes. */
int gp_x25519_new(uint8_t ret_secret[GP_X25519_SIZE]);

#endif
