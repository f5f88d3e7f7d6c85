/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the last attachments ended, for clients whose connection closed without a reason.
 *
 * A worker that is killed can send nothing.  Its client then asks the supervisor, once,
 * over a new connection, and identifies itself by a secret of the attachment, so that
 * no other peer learns of its end.  Embedded in struct srv; event-loop thread only.
 */
#ifndef SRV_ENDING_H
#define SRV_ENDING_H

#include "wire_format.h"

#include <stdint.h>

/* A client asks within a second: enough for 256 workers that die in one. */
#define SRV_ENDINGS 256
#define SRV_ENDING_MAX 192 /* bytes of the words, with the NUL */

struct srv_endings {
    struct srv_ending {
        uint8_t cookie[WIRE_ENDING_COOKIE];
        char words[SRV_ENDING_MAX]; /* "": unused */
    } of[SRV_ENDINGS];
    unsigned at; /* the oldest */
};

/* Remember that the attachment of @cookie ended with @words, for its client to ask; of
 * the oldest it is the end.  What is not printable becomes a question mark. */
void srv_ending_note(struct srv_endings *endings,
                     const uint8_t cookie[WIRE_ENDING_COOKIE], const char *words);

/* "" when nothing is known of that attachment. */
const char *srv_ending_find(const struct srv_endings *endings,
                            const uint8_t cookie[WIRE_ENDING_COOKIE]);

#endif
