/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of one module: every spelling once, with what it currently means.
 *
 * Part of struct ptx_priv, lives as long as the module; written only while the
 * module is parsed (one thread), read-only afterwards.  It knows no scopes:
 * ptx_scope.c keeps the meanings in step with them.
 */
#ifndef PTX_NAMES_H
#define PTX_NAMES_H

#include "gp_table.h"
#include "ptx_arena.h"
#include "ptx_ast.h"

struct ptx_binding;
struct ptx_range;

struct ptx_name {
    struct ptx_sym sym;      /* first: AST pointers to it are pointers to this */
    uint16_t word;           /* PTX_W_*, 0: not used as a word yet */
    uint8_t sreg;            /* enum ptx_sreg + 1; 0: none (%envreg7: ask its prefix) */
    uint8_t split;           /* prefix and num are valid */
    uint32_t num;            /* %r57: 57 */
    struct ptx_name *prefix; /* %r57: %r, NULL: does not end in a number */
    struct ptx_binding *bind;   /* innermost register, variable, function */
    struct ptx_binding *label;  /* innermost label */
    struct ptx_binding *ranges; /* innermost %r<n> with this prefix */
};

GP_TABLE_TYPE(ptx_spellings, struct ptx_name *);

struct ptx_names {
    struct ptx_arena *arena;
    struct ptx_spellings spellings;
    uint32_t seed;        /* a hostile module cannot choose collisions */
    struct ptx_vec words; /* const struct ptx_name *: numbers from PTX_W_COUNT */
};

int ptx_names_init(struct ptx_names *names, struct ptx_arena *arena);
void ptx_names_fini(struct ptx_names *names);

/* The name with this spelling, made if it is new.  NULL: no memory. */
struct ptx_name *ptx_names_intern(struct ptx_names *names, const char *text,
                                  size_t len);
/* NULL: no such name in the module. */
struct ptx_name *ptx_names_find(const struct ptx_names *names, const char *text,
                                size_t len);
/* The word number of a name, given out if it is new.  0: cap or memory. */
unsigned ptx_names_word(struct ptx_names *names, struct ptx_name *name);
/* Fill name->prefix and ->num.  False: no memory. */
bool ptx_names_split(struct ptx_names *names, struct ptx_name *name);

/* The text of one of our own words, NULL beyond them. */
const char *ptx_names_word_text(unsigned word);

#endif
