/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One body of one call as the generated table test_codec_calls.c offers it to
 * test_codec.c.  Test code only.
 */
#ifndef TEST_CODEC_H
#define TEST_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codec_test {
    const char *name;
    uint16_t call;
    bool request; /* else its answer */
    /* Write a body with something in every part; returns its size. */
    uint32_t (*make)(void *body, uint32_t seed);
    /* Decode @size bytes and look at every byte that the decoder let through. */
    bool (*open)(const void *body, size_t size);
};

extern const struct codec_test codec_tests[];
extern const unsigned codec_test_count;

uint64_t codec_test_number(uint32_t seed);
void codec_test_fill(void *part, uint64_t count, size_t elem, int is_string);
void codec_test_read(const void *part, uint64_t count, size_t elem);

#endif
