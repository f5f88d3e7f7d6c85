/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX text to tokens, one at a time.
 *
 * Part of the parser's state: one thread, for the time of one ptx_parse().
 * The text must end in a NUL byte, which is the end whatever follows.  No
 * grammar here: `.` + word, name, number, punctuation.
 */
#ifndef PTX_LEX_H
#define PTX_LEX_H

#include "ptx_names.h"

enum ptx_tok {
    PTX_TOK_END = 0,    /* below 128: the character itself */
    PTX_TOK_NAME = 128, /* name: add, %r1, foo, _ */
    PTX_TOK_DOT,        /* name: .u32, .shared::cta, .1d */
    PTX_TOK_INT,        /* bits, is_unsigned */
    PTX_TOK_F32,        /* bits: 0f... */
    PTX_TOK_F64,        /* bits: 0d..., 1.5 */
    PTX_TOK_STRING,     /* text, len: without the quotes, escapes as they are */
    PTX_TOK_SHL,
    PTX_TOK_SHR,
    PTX_TOK_LE,
    PTX_TOK_GE,
    PTX_TOK_EQ,
    PTX_TOK_NE,
    PTX_TOK_AND,
    PTX_TOK_OR,
    PTX_TOK_BAD, /* why: no such token */
};

struct ptx_lex {
    const char *cur;        /* behind the token */
    const char *line_start; /* for columns */
    uint32_t line;
    struct ptx_names *names;

    /* the current token */
    enum ptx_tok tok;
    uint32_t tok_line;
    uint32_t tok_col; /* from 1 */
    const char *text; /* its spelling */
    uint32_t len;
    bool is_unsigned;
    uint64_t bits;
    struct ptx_name *name;
    const char *why; /* PTX_TOK_BAD, NULL: memory */
};

/* @text ends in NUL; the first token is read. */
void ptx_lex_init(struct ptx_lex *lex, const char *text, struct ptx_names *names);
/* On to the next token, which it returns. */
enum ptx_tok ptx_lex_next(struct ptx_lex *lex);
/* Forget the rest of the line; the next token is on the next one. */
enum ptx_tok ptx_lex_skip_line(struct ptx_lex *lex);

#endif
