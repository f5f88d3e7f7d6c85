/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a raw link is set: everything that the product may do to be fast and a plain
 * program can do as well.
 *
 * A setting has one form as text, "key:value" with commas between, which the search
 * (raw_search.c) prints and writes to a file and the other programs read back.  The
 * file has a line "KIND BYTES SETTING" for each kind of use: "call 0", "up 65536",
 * "down 1048576" and so on.
 */
#ifndef RAW_SETTING_H
#define RAW_SETTING_H

#include <stddef.h>
#include <stdint.h>

enum raw_wait {
    RAW_WAIT_BLOCK, /* in read(2), or on an eventfd */
    RAW_WAIT_FUTEX, /* rings only */
    RAW_WAIT_POLL,  /* never sleeps */
    RAW_WAITS,
};

struct raw_setting {
    uint32_t wait;                  /* enum raw_wait, both ends */
    uint32_t slice_us;              /* of the peer's thread; 0: the system's */
    uint32_t rseq;                  /* 0: the peer's thread leaves it */
    uint32_t send_kib, receive_kib; /* buffers of sockets; 0: the system's */
    uint32_t piece_kib; /* of one write, or a slot of a ring; 0: all at once */
    uint32_t slots;     /* of a ring */
    uint32_t late;      /* a ring wakes its reader when it is full or all is sent */
    uint32_t pause;     /* a ring that is polled: a pause between two looks */
    uint32_t unpaced;   /* sockets use a congestion control that does not pace */
    uint32_t card_kib; /* sockets: what the peer copies to or from its card at a time */
};

#define RAW_SETTING_TEXT 192
#define RAW_CARD_KIB_MAX 1024u

/* What to begin with: what a person would write without measuring. */
extern const struct raw_setting raw_setting_default;

void raw_setting_print(const struct raw_setting *setting, char text[RAW_SETTING_TEXT]);

/* Keys that @text leaves out keep their value; false for what is no setting. */
int raw_setting_parse(struct raw_setting *setting, const char *text);

/* The setting of @kind for copies of @size in the file at @path: of the nearest size
 * that is there.  The default without a file (@path NULL). */
struct raw_setting raw_setting_of(const char *path, const char *kind, size_t size);

#endif
