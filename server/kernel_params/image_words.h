/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PTX text, word by word, as the language splits it: comments and quoted strings may
 * hold anything.
 *
 * A struct image_words is a place in somebody else's text, which is taken to be
 * hostile; nothing outside of it is read.  Belongs to its caller.
 */
#ifndef IMAGE_WORDS_H
#define IMAGE_WORDS_H

#include "gp_base.h"

#include <stdbool.h>

enum image_token {
    IMAGE_TOKEN_END,
    IMAGE_TOKEN_WORD, /* a directive (with its dot), a name, a number */
    IMAGE_TOKEN_MARK, /* one character */
};

struct image_words {
    const char *at; /* behind the last token */
    const char *end;
    const char *word; /* the last token */
    size_t len;
    bool is_broken; /* a string did not end in its line */
};

enum image_token image_words_next(struct image_words *w);

/* To the end of the line.  False: what it holds could begin a string or a comment, for
 * who does not skip it. */
bool image_words_skip_line(struct image_words *w);

/* Is the last token this one? */
bool image_words_is(const struct image_words *w, const char *word);

/* The last token as a whole number; false: it is none, or more than 63 bits hold. */
bool image_words_number(const struct image_words *w, uint64_t *ret);

/* Bytes of ".u64" and its like; 0: no such type. */
uint32_t image_words_type_size(const struct image_words *w);

#endif
