/* SPDX-License-Identifier: Apache-2.0 */
#include "image_words.h"

#include <string.h>

/* ---- tokens ---- */

static bool
is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '$';
}

static void
skip_line(struct image_words *w)
{
    const char *end = memchr(w->at, '\n', (size_t)(w->end - w->at));

    w->at = end ? end : w->end;
}

static void
skip_comment(struct image_words *w)
{
    const char *end = memmem(w->at + 2, (size_t)(w->end - w->at - 2), "*/", 2);

    w->at = end ? end + 2 : w->end;
}

/* A string that goes on in the next line is none to a driver. */
static void
skip_string(struct image_words *w)
{
    for (w->at++; w->at < w->end && *w->at != '"' && *w->at != '\n'; w->at++)
        w->at += *w->at == '\\' && w->at + 1 < w->end && w->at[1] != '\n';
    w->is_broken |= w->at == w->end || *w->at != '"';
    w->at += w->at < w->end;
}

static void
skip_blanks(struct image_words *w)
{
    while (w->at < w->end) {
        char c = *w->at, next = w->at + 1 < w->end ? w->at[1] : 0;

        if (c == '#' || (c == '/' && next == '/'))
            skip_line(w);
        else if (c == '/' && next == '*')
            skip_comment(w);
        else if (c == '"')
            skip_string(w);
        else if (c == ' ' || (c >= '\t' && c <= '\r'))
            w->at++;
        else
            break;
    }
}

enum image_token
image_words_next(struct image_words *w)
{
    skip_blanks(w);
    w->word = w->at;
    if (w->at == w->end)
        return IMAGE_TOKEN_END;
    w->at++;
    if (*w->word != '.' && *w->word != '%' && !is_word(*w->word)) {
        w->len = 1;
        return IMAGE_TOKEN_MARK;
    }
    while (w->at < w->end && is_word(*w->at))
        w->at++;
    w->len = (size_t)(w->at - w->word);
    return IMAGE_TOKEN_WORD;
}

bool
image_words_skip_line(struct image_words *w)
{
    const char *begin = w->at;
    size_t len;

    skip_line(w);
    len = (size_t)(w->at - begin);
    return !memchr(begin, '"', len) && !memmem(begin, len, "/*", 2);
}

bool
image_words_is(const struct image_words *w, const char *word)
{
    return w->len == strlen(word) && memcmp(w->word, word, w->len) == 0;
}

/* ---- numbers and types ---- */

static unsigned
digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return c >= 'a' && c <= 'f'   ? (unsigned)(c - 'a') + 10
           : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                  : 99;
}

bool
image_words_number(const struct image_words *w, uint64_t *ret)
{
    const char *at = w->word;
    size_t len = w->len;
    unsigned base = 10;
    uint64_t v = 0;

    if (len > 1 && at[len - 1] == 'U')
        len--;
    if (len > 1 && at[0] == '0') {
        base = at[1] == 'x' || at[1] == 'X' ? 16 : at[1] == 'b' || at[1] == 'B' ? 2 : 8;
        at += base == 8 ? 1 : 2;
        len -= base == 8 ? 1 : 2;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned d = digit_of(at[i]);

        if (d >= base || v > ((uint64_t)INT64_MAX - d) / base)
            return false;
        v = v * base + d;
    }
    *ret = v;
    return len > 0;
}

uint32_t
image_words_type_size(const struct image_words *w)
{
    static const struct {
        const char name[8];
        uint32_t size;
    } types[] = {
        {".u64", 8}, {".u32", 4}, {".b8", 1},  {".f32", 4},   {".b64", 8}, {".b32", 4},
        {".u8", 1},  {".u16", 2}, {".f64", 8}, {".s32", 4},   {".s64", 8}, {".s16", 2},
        {".s8", 1},  {".b16", 2}, {".f16", 2}, {".b128", 16},
    };

    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (image_words_is(w, types[i].name))
            return types[i].size;
    return 0;
}
