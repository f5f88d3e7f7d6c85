/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a PTX text.
 *
 * Only the heads of entries are understood; all else is passed over word by word, as
 * the language splits it: comments and quoted strings may hold anything.  Each
 * parameter lies at the next multiple of its alignment, which is its type's unless
 * .align says more; .ptr speaks of what a pointer points to and changes nothing.
 */
#include "kernel_params.h"

#include "gp_err.h"
#include "gp_param.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_MAX 4096u

enum token {
    TOKEN_END,
    TOKEN_WORD, /* a directive (with its dot), a name, a number */
    TOKEN_MARK, /* one character */
};

struct reader {
    const char *at;
    const char *end;
    const char *word; /* of the last token */
    size_t len;
    struct kernel_params_set *all;
    unsigned sm;

    /* The entry at hand. */
    const char *why;
    uint32_t n;
    uint32_t bytes;
    struct kernel_param params[KERNEL_PARAMS_PARAMS_MAX];
};

/* ---- tokens ---- */

static bool
is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '$' || c == '%';
}

static void
skip_line(struct reader *r)
{
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));

    r->at = end ? end : r->end;
}

static void
skip_comment(struct reader *r)
{
    const char *end = memmem(r->at + 2, (size_t)(r->end - r->at - 2), "*/", 2);

    r->at = end ? end + 2 : r->end;
}

static void
skip_string(struct reader *r)
{
    for (r->at++; r->at < r->end && *r->at != '"'; r->at++)
        r->at += *r->at == '\\' && r->at + 1 < r->end;
    r->at += r->at < r->end;
}

static void
skip_blanks(struct reader *r)
{
    while (r->at < r->end) {
        char c = *r->at, next = r->at + 1 < r->end ? r->at[1] : 0;

        if (c == '#' || (c == '/' && next == '/'))
            skip_line(r);
        else if (c == '/' && next == '*')
            skip_comment(r);
        else if (c == '"')
            skip_string(r);
        else if (c == ' ' || (c >= '\t' && c <= '\r'))
            r->at++;
        else
            break;
    }
}

static enum token
next(struct reader *r)
{
    skip_blanks(r);
    r->word = r->at;
    if (r->at == r->end)
        return TOKEN_END;
    r->at++;
    if (*r->word != '.' && !is_word(*r->word)) {
        r->len = 1;
        return TOKEN_MARK;
    }
    while (r->at < r->end && is_word(*r->at))
        r->at++;
    r->len = (size_t)(r->at - r->word);
    return TOKEN_WORD;
}

static bool
is(const struct reader *r, const char *word)
{
    return r->len == strlen(word) && memcmp(r->word, word, r->len) == 0;
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

/* The last token as a whole number that is no larger than what a launch takes. */
static bool
number(const struct reader *r, uint32_t *ret)
{
    const char *at = r->word;
    size_t len = r->len;
    unsigned base = 10;
    uint32_t v = 0;

    if (len > 1 && at[len - 1] == 'U')
        len--;
    if (len > 1 && at[0] == '0') {
        base = at[1] == 'x' || at[1] == 'X' ? 16 : at[1] == 'b' || at[1] == 'B' ? 2 : 8;
        at += base == 8 ? 1 : 2;
        len -= base == 8 ? 1 : 2;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned d = digit_of(at[i]);

        if (d >= base)
            return false;
        v = v * base + d;
        if (v > KERNEL_PARAMS_BYTES_MAX)
            return false;
    }
    *ret = v;
    return len > 0;
}

/* Bytes of ".u64" and its like; 0: no such type. */
static uint32_t
type_size(const struct reader *r)
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
        if (is(r, types[i].name))
            return types[i].size;
    return 0;
}

/* ---- parameters ---- */

struct param {
    uint32_t unit;  /* bytes of the type */
    uint32_t align; /* 0: none was given */
    uint32_t count; /* of an array */
    bool pointer;   /* what follows speaks of what it points to */
    bool named;
};

static void
give_up(struct reader *r, const char *why)
{
    if (!r->why)
        r->why = why;
}

/* The number after .align. */
static void
read_align(struct reader *r, struct param *p)
{
    uint32_t n;

    if (next(r) != TOKEN_WORD || !number(r, &n) || !n || n > ALIGN_MAX || (n & (n - 1)))
        give_up(r, "an alignment that is no power of two");
    else if (!p->pointer && !p->unit)
        p->align = n;
}

/* "[" was read: "16 ]". */
static void
read_length(struct reader *r, struct param *p)
{
    uint64_t count = p->count;
    uint32_t n;

    if (next(r) != TOKEN_WORD || !number(r, &n)) {
        give_up(r, "the length of an array is no plain number");
        return;
    }
    count *= n;
    if (count > KERNEL_PARAMS_BYTES_MAX)
        give_up(r, "more bytes of parameters than a launch can take");
    else
        p->count = (uint32_t)count;
}

static void
read_word(struct reader *r, struct param *p)
{
    if (*r->word != '.')
        p->named = true;
    else if (is(r, ".align"))
        read_align(r, p);
    else if (is(r, ".ptr"))
        p->pointer = true;
    else if (type_size(r))
        p->unit = type_size(r);
    else if (!is(r, ".param") && !is(r, ".global") && !is(r, ".const") &&
             !is(r, ".local") && !is(r, ".shared"))
        give_up(r, "a parameter of a type without a known size");
}

static void
put_param(struct reader *r, const struct param *p)
{
    uint64_t align = gp_max(gp_max(p->align, p->unit), 1u);
    uint64_t size = (uint64_t)p->unit * p->count;
    uint64_t offset = gp_param_offset(r->bytes, align, r->sm);

    if (!p->unit || !p->named || !p->count) {
        give_up(r, "a parameter without a type, a name or a length");
    } else if (offset + size > KERNEL_PARAMS_BYTES_MAX ||
               r->n == KERNEL_PARAMS_PARAMS_MAX) {
        give_up(r, "more parameters than a launch can take");
    } else {
        r->params[r->n++] = (struct kernel_param){(uint32_t)offset, (uint32_t)size};
        r->bytes = (uint32_t)(offset + size);
    }
}

static bool
read_params(struct reader *r)
{
    struct param p = {.count = 1};
    bool any = false;

    for (;;) {
        enum token token = next(r);

        if (token == TOKEN_END)
            return false;
        if (token == TOKEN_WORD) {
            read_word(r, &p);
            any = true;
        } else if (*r->word == '[') {
            read_length(r, &p);
        } else if (*r->word == ',' || *r->word == ')') {
            if (any || *r->word == ',')
                put_param(r, &p);
            if (*r->word == ')')
                return true;
            p = (struct param){.count = 1};
            any = false;
        } else if (*r->word != ']') {
            give_up(r, "a parameter list that cannot be read");
        }
    }
}

/* ".entry" was read. */
static int
read_entry(struct reader *r, struct gp_err *err)
{
    const char *name, *after;
    size_t len;

    r->why = NULL;
    r->n = r->bytes = 0;
    if (next(r) != TOKEN_WORD || *r->word == '.')
        return gp_err_set(err, -EINVAL, "an entry without a name in a PTX text");
    name = r->word;
    len = r->len;
    after = r->at;
    if (next(r) != TOKEN_MARK || *r->word != '(')
        r->at = after;
    else if (!read_params(r))
        return gp_err_set(err, -EINVAL, "a PTX text that ends inside of parameters");
    return kernel_params_add(r->all, name, len, r->params, r->n, r->why, err);
}

int
kernel_params_ptx(const char *text, size_t len, unsigned sm,
                  struct kernel_params_set *all, struct gp_err *err)
{
    CLEANUP_FREE struct reader *r = calloc(1, sizeof(*r));
    enum token token;
    int rc = 0;

    if (!r)
        return gp_err_set(err, -ENOMEM, "no memory to read a PTX text");
    r->at = text;
    r->end = text + len;
    r->all = all;
    r->sm = sm;
    while (rc == 0 && (token = next(r)) != TOKEN_END)
        if (token == TOKEN_WORD && is(r, ".entry"))
            rc = read_entry(r, err);
    return rc;
}
