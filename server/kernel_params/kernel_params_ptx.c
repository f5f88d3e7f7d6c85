/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a PTX text.
 *
 * Only the heads of entries are understood; all else is passed over word by word.  Each
 * parameter lies at the next multiple of its alignment, which is its type's unless
 * .align says more; .ptr speaks of what a pointer points to and changes nothing.
 */
#include "kernel_params.h"

#include "gp_err.h"
#include "gp_param.h"
#include "image_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_MAX 4096u

struct reader {
    struct image_words words;
    struct kernel_params_set *all;
    unsigned sm;

    /* The entry at hand. */
    const char *why;
    uint32_t n;
    uint32_t bytes;
    struct kernel_param params[KERNEL_PARAMS_PARAMS_MAX];
};

/* ---- numbers ---- */

/* The last token as a whole number that is no larger than what a launch takes. */
static bool
number(const struct reader *r, uint32_t *ret)
{
    uint64_t v;

    if (!image_words_number(&r->words, &v) || v > KERNEL_PARAMS_BYTES_MAX)
        return false;
    *ret = (uint32_t)v;
    return true;
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

    if (image_words_next(&r->words) != IMAGE_TOKEN_WORD || !number(r, &n) || !n ||
        n > ALIGN_MAX || (n & (n - 1)))
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

    if (image_words_next(&r->words) != IMAGE_TOKEN_WORD || !number(r, &n)) {
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
    if (*r->words.word != '.')
        p->named = true;
    else if (image_words_is(&r->words, ".align"))
        read_align(r, p);
    else if (image_words_is(&r->words, ".ptr"))
        p->pointer = true;
    else if (image_words_type_size(&r->words))
        p->unit = image_words_type_size(&r->words);
    else if (!image_words_is(&r->words, ".param") &&
             !image_words_is(&r->words, ".global") &&
             !image_words_is(&r->words, ".const") &&
             !image_words_is(&r->words, ".local") &&
             !image_words_is(&r->words, ".shared"))
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
        enum image_token token = image_words_next(&r->words);

        if (token == IMAGE_TOKEN_END)
            return false;
        if (token == IMAGE_TOKEN_WORD) {
            read_word(r, &p);
            any = true;
        } else if (*r->words.word == '[') {
            read_length(r, &p);
        } else if (*r->words.word == ',' || *r->words.word == ')') {
            if (any || *r->words.word == ',')
                put_param(r, &p);
            if (*r->words.word == ')')
                return true;
            p = (struct param){.count = 1};
            any = false;
        } else if (*r->words.word != ']') {
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
    if (image_words_next(&r->words) != IMAGE_TOKEN_WORD || *r->words.word == '.')
        return gp_err_set(err, -EINVAL, "an entry without a name in a PTX text");
    name = r->words.word;
    len = r->words.len;
    after = r->words.at;
    if (image_words_next(&r->words) != IMAGE_TOKEN_MARK || *r->words.word != '(')
        r->words.at = after;
    else if (!read_params(r))
        return gp_err_set(err, -EINVAL, "a PTX text that ends inside of parameters");
    return kernel_params_add(r->all, name, len, r->params, r->n, r->why, err);
}

int
kernel_params_ptx(const char *text, size_t len, unsigned sm,
                  struct kernel_params_set *all, struct gp_err *err)
{
    CLEANUP_FREE struct reader *r = calloc(1, sizeof(*r));
    enum image_token token;
    int rc = 0;

    if (!r)
        return gp_err_set(err, -ENOMEM, "no memory to read a PTX text");
    r->words.at = text;
    r->words.end = text + len;
    r->all = all;
    r->sm = sm;
    while (rc == 0 && (token = image_words_next(&r->words)) != IMAGE_TOKEN_END)
        if (token == IMAGE_TOKEN_WORD && image_words_is(&r->words, ".entry"))
            rc = read_entry(r, err);
    return rc;
}
