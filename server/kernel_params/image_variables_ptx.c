/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of a PTX text: declarations of the state spaces .global and .const that are
 * not .extern.
 *
 * The same words are parts of instructions (ld.global.u32) and of parameters (.ptr
 * .global).  Outside of functions there are no instructions; in them a declaration is
 * told by that no name is joined to its words.  A length may be an expression of
 * numbers; one that is none is a length that nobody knows.
 */
#include "image_variables.h"

#include "image_words.h"

#include <string.h>

/* Of expressions in parentheses. */
#define DEPTH_MAX 32u

/* A type that only names something of the driver's, such as .texref. */
#define OPAQUE_BYTES 64u

struct reader {
    struct image_words words;
    enum image_token token;
    uint64_t sum;
};

static void
step(struct reader *r)
{
    r->token = image_words_next(&r->words);
}

static bool
at_mark(const struct reader *r, char mark)
{
    return r->token == IMAGE_TOKEN_MARK && *r->words.word == mark;
}

static bool
at_word(const struct reader *r, const char *word)
{
    return r->token == IMAGE_TOKEN_WORD && image_words_is(&r->words, word);
}

static uint64_t
multiply(uint64_t a, uint64_t b)
{
    uint64_t product;

    return gp_mul_ok(a, b, &product) ? product : UINT64_MAX;
}

/* ---- expressions: false, when it is none of numbers below 2^63 ---- */

static bool expression(struct reader *r, unsigned least, unsigned depth, uint64_t *ret);

static bool
operand(struct reader *r, unsigned depth, uint64_t *ret)
{
    if (depth > DEPTH_MAX)
        return false;
    if (at_mark(r, '(')) {
        step(r);
        if (!expression(r, 0, depth + 1, ret) || !at_mark(r, ')'))
            return false;
    } else if (r->token != IMAGE_TOKEN_WORD || !image_words_number(&r->words, ret)) {
        return false;
    }
    step(r);
    return true;
}

/* How strongly an operator binds; 0: none. */
static unsigned
strength(const struct reader *r)
{
    static const char operators[] = "|^&<>+-*/";
    static const unsigned strengths[] = {1, 2, 3, 4, 4, 5, 5, 6, 6};
    const char *at;

    if (r->token != IMAGE_TOKEN_MARK)
        return 0;
    at = memchr(operators, *r->words.word, sizeof(operators) - 1);
    return at ? strengths[at - operators] : 0;
}

static bool
compute(char op, uint64_t a, uint64_t b, uint64_t *ret)
{
    switch (op) {
    case '|':
        *ret = a | b;
        return true;
    case '^':
        *ret = a ^ b;
        return true;
    case '&':
        *ret = a & b;
        return true;
    case '<':
        *ret = b < 63 ? a << b : 0;
        return b < 63 && *ret >> b == a;
    case '>':
        *ret = b < 63 ? a >> b : 0;
        return true;
    case '+':
        return gp_add_ok(a, b, ret);
    case '-':
        *ret = a - b;
        return a >= b;
    case '*':
        return gp_mul_ok(a, b, ret);
    default:
        *ret = b ? a / b : 0;
        return b != 0;
    }
}

/* Operators that bind more strongly than @least. */
static bool
expression(struct reader *r, unsigned least, unsigned depth, uint64_t *ret)
{
    if (depth > DEPTH_MAX || !operand(r, depth, ret))
        return false;
    while (strength(r) > least) {
        unsigned own = strength(r);
        char op = *r->words.word;
        uint64_t right;

        step(r);
        if (op == '<' || op == '>') { /* of two characters; one alone compares */
            if (!at_mark(r, op))
                return false;
            step(r);
        }
        if (!expression(r, own, depth + 1, &right) || !compute(op, *ret, right, ret) ||
            *ret > INT64_MAX)
            return false;
    }
    return true;
}

/* ---- one declaration ---- */

struct decl {
    uint64_t unit; /* bytes of the type */
    uint64_t vector;
    uint64_t align;
    bool is_extern;
};

/* What is between parentheses, which are read as well. */
static void
skip_parens(struct reader *r)
{
    unsigned open = 0;

    do {
        open += at_mark(r, '(');
        open -= at_mark(r, ')') && open;
        step(r);
    } while (open && r->token != IMAGE_TOKEN_END && !at_mark(r, ';'));
}

static void
read_align(struct reader *r, struct decl *d)
{
    uint64_t n;

    if (!expression(r, 0, 0, &n))
        return;
    d->align = gp_max(d->align, n);
}

/* The words in front of the first name. */
static void
read_words(struct reader *r, struct decl *d)
{
    while (r->token == IMAGE_TOKEN_WORD && *r->words.word == '.') {
        bool is_align = at_word(r, ".align"), is_attribute = at_word(r, ".attribute");

        if (image_words_type_size(&r->words))
            d->unit = image_words_type_size(&r->words);
        else if (r->words.len == 3 && r->words.word[1] == 'v')
            d->vector = gp_max((uint64_t)(r->words.word[2] - '0'), d->vector);
        step(r);
        if (is_align)
            read_align(r, d);
        else if ((is_attribute && at_mark(r, '(')))
            skip_parens(r);
    }
}

/* "[4][8]"; *ret_open: the first length is that of the initial value. */
static uint64_t
read_lengths(struct reader *r, bool *ret_open)
{
    uint64_t count = 1, n;

    *ret_open = false;
    while (at_mark(r, '[')) {
        step(r);
        if (at_mark(r, ']'))
            *ret_open = true;
        else if (expression(r, 0, 0, &n) && at_mark(r, ']'))
            count = multiply(count, n);
        else
            return UINT64_MAX;
        step(r);
    }
    if (at_mark(r, '<')) { /* so many variables */
        step(r);
        count = expression(r, 4, 0, &n) && at_mark(r, '>') ? multiply(count, n)
                                                           : UINT64_MAX;
        step(r);
    }
    return count;
}

/* "=" was read: up to the comma or semicolon that ends the value.  Returns how many
 * values there can be: no fewer than there are, and of a text its characters. */
static uint64_t
read_value(struct reader *r)
{
    const char *begin = r->words.at;
    uint64_t values = 1;
    unsigned open = 0;
    bool braces;

    step(r);
    braces = at_mark(r, '{');
    while (r->token != IMAGE_TOKEN_END && !at_mark(r, ';') &&
           (open || !at_mark(r, ','))) {
        open += at_mark(r, '{') || at_mark(r, '(');
        open -= (at_mark(r, '}') || at_mark(r, ')')) && open;
        values += at_mark(r, ',');
        step(r);
    }
    return braces ? values : (uint64_t)(r->words.at - begin) + 1;
}

static void
put(struct reader *r, const struct decl *d, uint64_t count)
{
    uint64_t element = (d->unit ? d->unit : OPAQUE_BYTES) * d->vector;
    uint64_t align = gp_max(d->align, element), rest = r->sum % align;

    if (d->is_extern)
        return;
    if (rest)
        r->sum = image_variables_add(r->sum, align - rest);
    r->sum = image_variables_add(r->sum, multiply(element, count));
}

/* ".global" or ".const" was read. */
static void
read_decl(struct reader *r, bool is_extern)
{
    struct decl d = {.vector = 1, .is_extern = is_extern};

    if (at_mark(r, '[')) { /* .const[2]: a bank */
        while (!at_mark(r, ']') && !at_mark(r, ';') && r->token != IMAGE_TOKEN_END)
            step(r);
        step(r);
    }
    read_words(r, &d);
    while (r->token == IMAGE_TOKEN_WORD && *r->words.word != '.') {
        uint64_t count, values = 1;
        bool open;

        step(r);
        count = read_lengths(r, &open);
        if (at_mark(r, '='))
            values = read_value(r);
        put(r, &d, open ? multiply(count, values) : count);
        if (!at_mark(r, ','))
            return;
        step(r);
    }
}

/* ---- the text ---- */

/* The word before this one, and the first of those that it is joined to. */
struct before {
    const char *end;
    bool is_word, is_extern, is_ptr;
    char head;
};

static bool
begins_decl(const struct reader *r, const struct before *b, unsigned depth)
{
    if (b->is_ptr || !(at_word(r, ".global") || at_word(r, ".const")))
        return false;
    /* Joined to a name: an instruction. */
    return depth == 0 || b->head == '.' || (b->head >= '0' && b->head <= '9');
}

uint64_t
image_variables_ptx(const char *text, size_t len)
{
    struct reader r = {.words = {.at = text, .end = text + len}};
    struct before before = {0};
    unsigned depth = 0;

    for (step(&r); r.token != IMAGE_TOKEN_END;) {
        bool is_word = r.token == IMAGE_TOKEN_WORD;

        if (is_word && !(before.is_word && before.end == r.words.word))
            before.head = *r.words.word;
        if (begins_decl(&r, &before, depth)) {
            step(&r);
            read_decl(&r, before.is_extern);
            before = (struct before){0};
            continue;
        }
        depth += at_mark(&r, '{');
        depth -= at_mark(&r, '}') && depth;
        before.is_word = is_word;
        before.is_extern = at_word(&r, ".extern");
        before.is_ptr = at_word(&r, ".ptr");
        before.end = r.words.at;
        step(&r);
    }
    return r.sum;
}
