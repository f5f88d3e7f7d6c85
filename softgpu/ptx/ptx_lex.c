/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_lex.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Longest decimal number: enough for every digit of a double that matters. */
#define NUMBER_MAX 512

enum {
    C_NAME = 1,  /* may continue a name */
    C_START = 2, /* may start one */
    C_DIGIT = 4,
    C_HEX = 8,
    C_SPACE = 16, /* not the newline */
};

static const uint8_t classes[256] = {
    [' '] = C_SPACE,
    ['\t'] = C_SPACE,
    ['\r'] = C_SPACE,
    ['\f'] = C_SPACE,
    ['\v'] = C_SPACE,
    ['0' ... '9'] = C_NAME | C_DIGIT | C_HEX,
    ['A' ... 'F'] = C_NAME | C_START | C_HEX,
    ['a' ... 'f'] = C_NAME | C_START | C_HEX,
    ['G' ... 'Z'] = C_NAME | C_START,
    ['g' ... 'z'] = C_NAME | C_START,
    ['_'] = C_NAME | C_START,
    ['$'] = C_NAME | C_START,
    ['%'] = C_START, /* alone it is an operator: see lex_token() */
};

static inline bool
is(char c, unsigned class)
{
    return classes[(uint8_t)c] & class;
}

static enum ptx_tok
bad(struct ptx_lex *lex, const char *why)
{
    lex->why = why;
    /* Stay: whoever asks again gets the same answer. */
    lex->cur = lex->text;
    return PTX_TOK_BAD;
}

static void
new_line(struct ptx_lex *lex, const char *newline)
{
    lex->line++;
    lex->line_start = newline + 1;
}

/* Behind a block comment; NULL: it does not end. */
static const char *
skip_block(struct ptx_lex *lex, const char *c)
{
    for (; *c; c++) {
        if (c[0] == '*' && c[1] == '/')
            return c + 2;
        if (*c == '\n')
            new_line(lex, c);
    }
    return NULL;
}

/* To the first character of a token.  False: a comment does not end. */
static bool
skip_blanks(struct ptx_lex *lex)
{
    const char *c = lex->cur;

    for (;;) {
        while (is(*c, C_SPACE))
            c++;
        if (*c == '\n') {
            new_line(lex, c++);
        } else if (c[0] == '/' && c[1] == '/') {
            c += strcspn(c, "\n");
        } else if (c[0] == '/' && c[1] == '*') {
            const char *end = skip_block(lex, c + 2);

            if (!end) {
                lex->cur = c;
                return false;
            }
            c = end;
        } else {
            break;
        }
    }
    lex->cur = c;
    return true;
}

static enum ptx_tok
lex_word(struct ptx_lex *lex, const char *start, const char *end, enum ptx_tok tok)
{
    lex->cur = end;
    lex->name = ptx_names_intern(lex->names, start, (size_t)(end - start));
    return lex->name ? tok : bad(lex, NULL);
}

static enum ptx_tok
lex_name(struct ptx_lex *lex)
{
    const char *c = lex->cur + 1;

    while (is(*c, C_NAME))
        c++;
    return lex_word(lex, lex->cur, c, PTX_TOK_NAME);
}

/* .word, with :: inside: .L2::128B */
static enum ptx_tok
lex_dot(struct ptx_lex *lex)
{
    const char *start = lex->cur + 1, *c = start;

    for (;;) {
        while (is(*c, C_NAME))
            c++;
        if (c == start || c[0] != ':' || c[1] != ':' || !is(c[2], C_NAME))
            break;
        c += 2;
    }
    if (c == start)
        return bad(lex, "expected a word after '.'");
    return lex_word(lex, start, c, PTX_TOK_DOT);
}

/* One locale for numbers: the program around us may have set a decimal comma. */
static locale_t c_locale;

static void
c_locale_init(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static enum ptx_tok
lex_decimal_float(struct ptx_lex *lex, const char *end)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char buf[NUMBER_MAX];
    size_t len = (size_t)(end - lex->cur);
    double value;

    if (len >= sizeof(buf))
        return bad(lex, "number too long");
    pthread_once(&once, c_locale_init);
    if (!c_locale)
        return bad(lex, NULL);
    memcpy(buf, lex->cur, len);
    buf[len] = 0;
    value = strtod_l(buf, NULL, c_locale);
    memcpy(&lex->bits, &value, sizeof(lex->bits));
    lex->cur = end;
    return PTX_TOK_F64;
}

static unsigned
digit_value(char c)
{
    if (is(c, C_DIGIT))
        return (unsigned)(c - '0');
    return is(c, C_HEX) ? (unsigned)((c | 0x20) - 'a' + 10) : 99;
}

/* Digits of @base from @c; their end, NULL: does not fit 64 bits. */
static const char *
lex_digits(struct ptx_lex *lex, const char *c, unsigned base)
{
    uint64_t value = 0;

    for (; digit_value(*c) < base; c++) {
        if (!gp_mul_ok(value, (uint64_t)base, &value) ||
            !gp_add_ok(value, (uint64_t)digit_value(*c), &value))
            return NULL;
    }
    lex->bits = value;
    return c;
}

/* 0f3f800000 and 0d3ff0000000000000: exactly so many digits. */
static enum ptx_tok
lex_hex_float(struct ptx_lex *lex, unsigned digits, enum ptx_tok tok)
{
    const char *start = lex->cur + 2, *c = lex_digits(lex, start, 16);

    if (!c || c != start + digits || is(*c, C_NAME))
        return bad(lex, "a float literal has 8 digits after 0f, 16 after 0d");
    lex->cur = c;
    return tok;
}

static enum ptx_tok
lex_integer(struct ptx_lex *lex, const char *start, unsigned base)
{
    const char *c = lex_digits(lex, start, base);

    if (!c)
        return bad(lex, "integer does not fit 64 bits");
    if (c == start)
        return bad(lex, "expected digits");
    lex->is_unsigned = *c == 'U' || *c == 'u';
    c += lex->is_unsigned;
    lex->is_unsigned |= lex->bits > INT64_MAX;
    if (is(*c, C_NAME))
        return bad(lex, "expected the end of a number");
    lex->cur = c;
    return PTX_TOK_INT;
}

/* Where a decimal float ends; NULL: the digits at cur are an integer. */
static const char *
float_end(const char *c)
{
    bool is_float = false;

    while (is(*c, C_DIGIT))
        c++;
    if (*c == '.' && !(is(c[1], C_START) && (c[1] | 0x20) != 'e')) {
        is_float = true;
        for (c++; is(*c, C_DIGIT); c++)
            ;
    }
    if (*c == 'e' || *c == 'E') {
        const char *exp = c + 1 + (c[1] == '+' || c[1] == '-');

        if (is(*exp, C_DIGIT)) {
            is_float = true;
            for (c = exp; is(*c, C_DIGIT); c++)
                ;
        }
    }
    return is_float ? c : NULL;
}

static enum ptx_tok
lex_number(struct ptx_lex *lex)
{
    const char *c = lex->cur, *end;

    if (c[0] == '0') {
        switch (c[1]) {
        case 'f':
        case 'F':
            return lex_hex_float(lex, 8, PTX_TOK_F32);
        case 'd':
        case 'D':
            return lex_hex_float(lex, 16, PTX_TOK_F64);
        case 'x':
        case 'X':
            return lex_integer(lex, c + 2, 16);
        case 'b':
        case 'B':
            return lex_integer(lex, c + 2, 2);
        default:
            break;
        }
    }
    end = float_end(c);
    if (end)
        return lex_decimal_float(lex, end);
    return lex_integer(lex, c, c[0] == '0' ? 8 : 10);
}

static enum ptx_tok
lex_string(struct ptx_lex *lex)
{
    const char *c = lex->cur + 1;

    for (; *c != '"'; c++) {
        if (*c == '\\' && c[1] && c[1] != '\n')
            c++;
        else if (!*c || *c == '\n')
            return bad(lex, "string does not end");
    }
    lex->text = lex->cur + 1;
    lex->len = (uint32_t)(c - lex->text);
    lex->cur = c + 1;
    return PTX_TOK_STRING;
}

static enum ptx_tok
lex_punct(struct ptx_lex *lex)
{
    static const struct {
        char text[3];
        uint8_t tok;
    } pairs[] = {
        {"<<", PTX_TOK_SHL}, {">>", PTX_TOK_SHR}, {"<=", PTX_TOK_LE},
        {">=", PTX_TOK_GE},  {"==", PTX_TOK_EQ},  {"!=", PTX_TOK_NE},
        {"&&", PTX_TOK_AND}, {"||", PTX_TOK_OR},
    };
    const char *c = lex->cur;

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        if (c[0] == pairs[i].text[0] && c[1] == pairs[i].text[1]) {
            lex->cur = c + 2;
            return pairs[i].tok;
        }
    }
    lex->cur = c + 1;
    return (enum ptx_tok) * c;
}

/* What starts at cur, which is no blank. */
static enum ptx_tok
lex_token(struct ptx_lex *lex)
{
    const char *c = lex->cur;

    if (is(*c, C_START) && (*c != '%' || is(c[1], C_NAME)))
        return lex_name(lex);
    if (*c == '.')
        return lex_dot(lex);
    if (is(*c, C_DIGIT))
        return lex_number(lex);
    switch (*c) {
    case 0:
        return PTX_TOK_END;
    case ',':
    case ';':
    case '[':
    case ']':
    case '{':
    case '}':
    case '(':
    case ')':
    case ':':
    case '@':
    case '+':
    case '-':
        lex->cur = c + 1;
        return (enum ptx_tok) * c;
    case '"':
        return lex_string(lex);
    case '<':
    case '>':
    case '=':
    case '!':
    case '&':
    case '|':
    case '*':
    case '/':
    case '%':
    case '~':
    case '^':
    case '?':
        return lex_punct(lex);
    default:
        return bad(lex, "no PTX character");
    }
}

enum ptx_tok
ptx_lex_next(struct ptx_lex *lex)
{
    bool ok = skip_blanks(lex);

    lex->text = lex->cur;
    lex->tok_line = lex->line;
    lex->tok_col = (uint32_t)(lex->cur - lex->line_start) + 1;
    lex->tok = ok ? lex_token(lex) : bad(lex, "comment does not end");
    if (lex->tok != PTX_TOK_STRING)
        lex->len = (uint32_t)(lex->cur - lex->text);
    return lex->tok;
}

enum ptx_tok
ptx_lex_skip_line(struct ptx_lex *lex)
{
    lex->cur += strcspn(lex->cur, "\n");
    return ptx_lex_next(lex);
}

void
ptx_lex_init(struct ptx_lex *lex, const char *text, struct ptx_names *names)
{
    *lex = (struct ptx_lex){.cur = text, .line_start = text, .line = 1, .names = names};
    ptx_lex_next(lex);
}
