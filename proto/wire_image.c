/* SPDX-License-Identifier: Apache-2.0 */
#include "wire_image.h"

#include <string.h>

/* Pieces of a linked program: the caps of the load calls. */
#define PIECES_MAX 64

void
wire_image_identify(const struct iovec *pieces, size_t n, struct wire_image_id *ret)
{
    struct {
        uint64_t len;
        uint8_t hash[GP_BLAKE3_WIDE];
    } list[PIECES_MAX];
    uint8_t wide[GP_BLAKE3_WIDE];

    if (n == 1) {
        gp_blake3_wide(pieces[0].iov_base, pieces[0].iov_len, wide);
    } else {
        n = gp_min(n, (size_t)PIECES_MAX);
        for (size_t i = 0; i < n; i++) {
            list[i].len = pieces[i].iov_len;
            gp_blake3_wide(pieces[i].iov_base, pieces[i].iov_len, list[i].hash);
        }
        gp_blake3_wide(list, n * sizeof(list[0]), wide);
    }
    memcpy(ret, wide, sizeof(*ret));
}

void
wire_image_prove(const uint8_t secret[GP_BLAKE3_SIZE],
                 const uint8_t nonce[WIRE_IMAGE_NONCE], uint8_t ret[GP_BLAKE3_SIZE])
{
    uint8_t both[WIRE_IMAGE_NONCE + GP_BLAKE3_SIZE];

    memcpy(both, nonce, WIRE_IMAGE_NONCE);
    memcpy(both + WIRE_IMAGE_NONCE, secret, GP_BLAKE3_SIZE);
    gp_blake3(both, sizeof(both), ret);
}

bool
wire_image_same(const uint8_t a[GP_BLAKE3_SIZE], const uint8_t b[GP_BLAKE3_SIZE])
{
    unsigned differ = 0;

    for (unsigned i = 0; i < GP_BLAKE3_SIZE; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}
