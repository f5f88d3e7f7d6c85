/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves a ticket for clients by hand.
 *
 *     mkproof SECRET SERVER_KEY NONCE [ROUNDS] < ticket
 *
 * SECRET as in a session file, the others as 64 hex digits from the server's challenge.
 * Prints the proof in hex digits, and the cookies of the stripes, three rounds of them
 * or as many as the last argument says.
 */
#include "attach_proof.h"
#include "gp_b64.h"
#include "gp_str.h"
#include "gp_x25519.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
from_hex(const char *text, uint8_t ret[32])
{
    for (int i = 0; i < 32; i++)
        if (sscanf(text + 2 * i, "%2hhx", &ret[i]) != 1)
            exit(2);
}

static void
print_hex(const uint8_t *bytes, size_t size)
{
    char text[2 * 32 + 1];

    gp_str_hex(text, bytes, size);
    puts(text);
}

int
main(int argc, char **argv)
{
    CLEANUP_FREE uint8_t *secret = NULL;
    uint8_t proof[ATTACH_PROOF_SIZE], key[ATTACH_KEY_SIZE], cookie[ATTACH_COOKIE_SIZE];
    struct attach_transcript t;
    char text[8192];
    uint32_t rounds = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 3;
    size_t size = 0;

    if ((argc != 4 && argc != 5) || !fgets(text, sizeof(text), stdin) ||
        gp_b64_decode(argv[1], strlen(argv[1]), &secret, &size) < 0 || size != 32) {
        fprintf(stderr, "usage: mkproof SECRET SERVER_KEY NONCE [ROUNDS] < ticket\n");
        return 2;
    }
    text[strcspn(text, "\n")] = 0;
    from_hex(argv[2], t.server_key);
    from_hex(argv[3], t.nonce);
    gp_x25519_public(secret, t.client_key);
    if (attach_transcript_finish(&t, secret, t.server_key, text) < 0)
        return 2;
    attach_proof_make(&t, proof);
    attach_key_make(&t, key);
    print_hex(proof, sizeof(proof));
    for (uint32_t i = 0; i < rounds * 8; i++) {
        attach_cookie_make(key, ATTACH_COOKIE_STRIPE, i, cookie);
        print_hex(cookie, 16);
    }
    return 0;
}
