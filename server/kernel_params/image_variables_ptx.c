/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of a PTX text: declarations of the state spaces .global and .const.
 *
 * The same words are parts of instructions (ld.global.u32) and of parameters (.ptr
 * .global).  Outside of functions there are no instructions; in them a declaration is a
 * statement that begins with a directive.  The words of a declaration may be in any
 * order, as some drivers take them.  A length may be an expression of numbers; one that
 * is none, or a declaration that is not understood, is a length that nobody knows.
 *
 * What is declared .extern and defined nowhere in the text becomes a variable of the
 * module, unless the text is one unit of a link.
 */
#include "image_variables.h"

#include "image_words.h"

#include <string.h>

/* Of expressions in parentheses. */
#define DEPTH_MAX 32u

/* A type that only names something of the driver's, such as .texref. */
#define OPAQUE_BYTES 64u

/* Declared .extern, with a length, and not defined so far. */
struct external {
    const char *name;
    size_t len;
    uint64_t bytes; /* with room for its alignment */
};

/* More of them in one text count although they may be defined; the largest number seen
 * was 3. */
#define EXTERNALS_MAX 64u

struct reader {
    struct image_words words;
    bool is_unit;
    enum image_token token;
    unsigned depth; /* of braces */
    char statement; /* its first character; 0: it has not begun */
    uint64_t sum;
    struct external externals[EXTERNALS_MAX];
    unsigned n_externals;
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

static bool
at_directive(const struct reader *r)
{
    return r->token == IMAGE_TOKEN_WORD && *r->words.word == '.';
}

static bool
at_name(const struct reader *r)
{
    return r->token == IMAGE_TOKEN_WORD && *r->words.word != '.';
}

static bool
at_number(const struct reader *r)
{
    return at_name(r) && *r->words.word >= '0' && *r->words.word <= '9';
}

/* Nobody knows how much it is. */
static void
give_up(struct reader *r)
{
    r->sum = UINT64_MAX;
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
    bool is_param, is_variable, is_extern;
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

/* A word has to follow: more of an expression than was understood could be any number.
 */
static void
read_align(struct reader *r, struct decl *d)
{
    uint64_t n;

    if (!expression(r, 0, 0, &n) || r->token != IMAGE_TOKEN_WORD)
        give_up(r);
    else
        d->align = gp_max(d->align, n);
}

/* .const[2] */
static void
skip_bank(struct reader *r)
{
    if (!at_mark(r, '['))
        return;
    while (!at_mark(r, ']') && !at_mark(r, ';') && r->token != IMAGE_TOKEN_END)
        step(r);
    step(r);
}

/* The one behind .ptr is that of what a parameter points to.  Drivers refuse a second
 * one; here it counts. */
static void
read_space(const struct reader *r, struct decl *d)
{
    d->is_param |= at_word(r, ".param");
    d->is_variable |= !d->is_param && (at_word(r, ".global") || at_word(r, ".const"));
}

static void
read_type(const struct reader *r, struct decl *d)
{
    const char *word = r->words.word;

    if (image_words_type_size(&r->words))
        d->unit = image_words_type_size(&r->words);
    else if (r->words.len == 3 && word[1] == 'v' && word[2] >= '2' && word[2] <= '9')
        d->vector = gp_max((uint64_t)(word[2] - '0'), d->vector);
}

/* Of several the last one is what counts. */
static void
read_linkage(const struct reader *r, struct decl *d)
{
    if (at_word(r, ".extern"))
        d->is_extern = true;
    else if (at_word(r, ".visible") || at_word(r, ".weak") || at_word(r, ".common"))
        d->is_extern = false;
}

/* The words in front of the first name. */
static void
read_words(struct reader *r, struct decl *d)
{
    bool after_ptr = false;

    while (at_directive(r)) {
        bool is_align = at_word(r, ".align"), is_const = at_word(r, ".const");
        bool is_attribute = at_word(r, ".attribute"), is_ptr = at_word(r, ".ptr");

        if (!after_ptr)
            read_space(r, d);
        read_type(r, d);
        read_linkage(r, d);
        step(r);
        if (is_align)
            read_align(r, d);
        else if (is_const)
            skip_bank(r);
        else if (is_attribute && at_mark(r, '('))
            skip_parens(r);
        after_ptr = is_ptr;
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

static uint64_t
element_bytes(const struct decl *d)
{
    return (d->unit ? d->unit : OPAQUE_BYTES) * d->vector;
}

static void
put(struct reader *r, const struct decl *d, uint64_t count)
{
    uint64_t align = gp_max(d->align, element_bytes(d)), rest = r->sum % align;

    if (rest)
        r->sum = image_variables_add(r->sum, align - rest);
    r->sum = image_variables_add(r->sum, multiply(element_bytes(d), count));
}

/* ---- .extern ---- */

/* The module's own, not a function's. */
static void
forget_external(struct reader *r, const char *name, size_t len)
{
    unsigned kept = 0;

    if (r->depth)
        return;
    for (unsigned i = 0; i < r->n_externals; i++)
        if (r->externals[i].len != len || memcmp(r->externals[i].name, name, len) != 0)
            r->externals[kept++] = r->externals[i];
    r->n_externals = kept;
}

/* Declared again, it is one, of the largest length. */
static void
note_external(struct reader *r, const struct external *e)
{
    for (unsigned i = 0; i < r->n_externals; i++) {
        struct external *had = &r->externals[i];

        if (had->len != e->len || memcmp(had->name, e->name, e->len) != 0)
            continue;
        had->bytes = gp_max(had->bytes, e->bytes);
        return;
    }
    if (r->n_externals < EXTERNALS_MAX)
        r->externals[r->n_externals++] = *e;
    else
        r->sum = image_variables_add(r->sum, e->bytes);
}

static void
put_external(struct reader *r, const struct decl *d, const char *name, size_t len,
             uint64_t count)
{
    uint64_t bytes = multiply(element_bytes(d), count);

    if (r->depth && !r->is_unit)
        put(r, d, count);
    else if (bytes && !r->is_unit)
        note_external(
            r, &(struct external){name, len, image_variables_add(bytes, d->align)});
}

/* ---- declarations ---- */

/* One name, with what belongs to it. */
static void
read_name(struct reader *r, const struct decl *d)
{
    const char *name = r->words.word;
    size_t len = r->words.len;
    uint64_t count, values = 1;
    bool open, has_value;

    step(r);
    count = read_lengths(r, &open);
    has_value = at_mark(r, '=');
    if (has_value)
        values = read_value(r);
    if (open)
        count = has_value || !d->is_extern ? multiply(count, values) : 0;
    if (d->is_extern) {
        put_external(r, d, name, len, count);
    } else {
        forget_external(r, name, len);
        put(r, d, count);
    }
}

/* A directive that may begin a declaration. */
static void
read_decl(struct reader *r)
{
    struct decl d = {.vector = 1};

    read_words(r, &d);
    if (!d.is_variable)
        return;
    do {
        if (at_mark(r, ','))
            step(r);
        if (!at_name(r)) {
            give_up(r);
            return;
        }
        read_name(r, &d);
    } while (at_mark(r, ','));
    if (!at_mark(r, ';'))
        give_up(r);
}

/* ---- the text ---- */

/* ".loc 1 42 3, function_name label + 4, inlined_at 1 40 2" ends without a mark. */
static void
skip_loc(struct reader *r)
{
    step(r);
    while (at_number(r))
        step(r);
    while (at_mark(r, ',')) {
        step(r);
        for (unsigned names = 0; names < 2 && at_name(r) && !at_number(r); names++)
            step(r);
        if (at_mark(r, '+'))
            step(r);
        while (at_number(r))
            step(r);
    }
}

/* ".file 1 "name", 123, 45" */
static void
skip_file(struct reader *r)
{
    step(r);
    while (at_number(r) || at_mark(r, ','))
        step(r);
}

static void
read_directive(struct reader *r)
{
    if (at_word(r, ".loc")) {
        skip_loc(r);
    } else if (at_word(r, ".file")) {
        skip_file(r);
    } else {
        r->statement = '.';
        read_decl(r);
    }
}

/* "@@DWARF" and the rest of its line are no PTX; one @ outside of functions neither. */
static bool
begins_dwarf(const struct reader *r)
{
    return at_mark(r, '@') &&
           (r->depth == 0 || (r->words.at < r->words.end && *r->words.at == '@'));
}

/* What could hide the lines that follow from one reader and not from another is not
 * understood. */
static void
skip_dwarf(struct reader *r)
{
    if (!image_words_skip_line(&r->words))
        give_up(r);
    step(r);
}

static void
read_token(struct reader *r)
{
    bool ends =
        at_mark(r, ';') || at_mark(r, '{') || at_mark(r, '}') || at_mark(r, ':');

    r->depth += at_mark(r, '{');
    r->depth -= at_mark(r, '}') && r->depth;
    if (ends)
        r->statement = 0;
    else if (!r->statement)
        r->statement = *r->words.word;
    step(r);
}

uint64_t
image_variables_ptx(const char *text, size_t len, bool is_unit)
{
    struct reader r = {.words = {.at = text, .end = text + len}, .is_unit = is_unit};

    step(&r);
    while (r.token != IMAGE_TOKEN_END) {
        if (at_directive(&r) && (r.depth == 0 || !r.statement))
            read_directive(&r);
        else if (begins_dwarf(&r))
            skip_dwarf(&r);
        else
            read_token(&r);
    }
    if (r.words.is_broken)
        give_up(&r);
    for (unsigned i = 0; i < r.n_externals; i++)
        r.sum = image_variables_add(r.sum, r.externals[i].bytes);
    return r.sum;
}
