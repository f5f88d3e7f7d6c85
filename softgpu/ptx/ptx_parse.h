/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser's state and what its files ask of each other.  Private to
 * softgpu/ptx/ptx_*.c; ptx_ast.h is what others include.
 *
 * Lives on the stack of ptx_parse(), one thread.  Every function that can fail
 * returns 0 or a negative errno with the words already written.  Each parse
 * function starts at the current token and ends behind what it consumed.
 */
#ifndef PTX_PARSE_H
#define PTX_PARSE_H

#include "gp_err.h"
#include "ptx_arena.h"
#include "ptx_ast.h"
#include "ptx_lex.h"
#include "ptx_names.h"

#include <errno.h>

/* What a module keeps after parsing. */
struct ptx_priv {
    struct ptx_arena arena;
    struct ptx_names names;
    struct ptx_module **parts; /* of a linked module: the inputs it points into */
    uint32_t n_parts;
};

/* An empty module with its arena and names.  NULL: no memory. */
struct ptx_module *ptx_module_new(void);

enum ptx_bind_kind {
    PTX_BIND_REG,   /* reg */
    PTX_BIND_VAR,   /* var */
    PTX_BIND_FUNC,  /* func */
    PTX_BIND_RANGE, /* count, reg: template in reg_type... */
    PTX_BIND_LABEL, /* label */
};

/* What a name means in one scope.  Chains of the same name go outwards. */
struct ptx_binding {
    struct ptx_name *name;
    struct ptx_binding *outer;    /* same name, same kind of chain */
    struct ptx_binding *in_scope; /* next of the same scope */
    uint8_t kind;                 /* enum ptx_bind_kind */
    uint8_t depth;                /* 0: module, 1: function body */
    uint8_t vec;                  /* RANGE */
    uint16_t type;                /* RANGE */
    uint32_t count;               /* RANGE */
    union {
        uint32_t reg;
        struct ptx_var *var;
        struct ptx_func *func;
        struct ptx_label *label;
    };
};

/* An operand that names something not seen yet: a label further down. */
struct ptx_pending {
    struct ptx_pending *next;
    struct ptx_opd *opd; /* PTX_OPD_SYM until resolved */
    bool keep;           /* unknown instruction: may stay unresolved */
};

/* A .branchtargets list until the body's end, when its labels are known. */
struct ptx_table {
    struct ptx_label *label;
    const struct ptx_opd *opds;
    uint32_t n;
};

struct ptx_scope {
    struct ptx_binding *bindings;
    struct ptx_pending *pending;
};

struct ptx_parser {
    struct ptx_lex lex;
    struct ptx_module *mod;
    struct ptx_arena *arena;  /* the module's */
    struct ptx_names *names;  /* the module's */
    struct ptx_arena scratch; /* bindings of one function */
    struct gp_err *err;

    struct ptx_scope scopes[PTX_MAX_NEST + 2];
    unsigned depth;          /* of the scope we are in; 0: module */
    bool ranges_with_digits; /* some range prefix ends in a digit (%x1<4>) */

    struct ptx_vec vars;  /* struct ptx_var *, module */
    struct ptx_vec funcs; /* struct ptx_func *, module */
    struct ptx_vec files; /* struct ptx_file, module */
    uint64_t init_bytes;  /* of all initialisers so far */
    uint64_t init_cap;    /* what they may become: see ptx_parse() */

    /* of the function we are in */
    struct ptx_func *func;
    struct ptx_vec regs;      /* struct ptx_reg */
    struct ptx_vec func_vars; /* struct ptx_var * */
    struct ptx_vec insns;     /* struct ptx_insn */
    struct ptx_vec labels;    /* struct ptx_label * */
    struct ptx_vec tables;    /* struct ptx_table */
    struct ptx_vec locs;      /* struct ptx_loc */

    struct ptx_vec opds;   /* struct ptx_opd: operands under construction */
    struct ptx_vec relocs; /* struct ptx_reloc of one initialiser */
    struct ptx_vec bytes;  /* uint8_t of one initialiser */
    unsigned nest;         /* recursion of expressions and operands */
};

/* ---- errors and tokens (ptx_parse.c) ---- */

/* "line 12:5: " and the words; returns @code. */
int ptx_fail_at(struct ptx_parser *p, uint32_t line, uint32_t col, int code,
                const char *fmt, ...) GP_PRINTF(5, 6);
/* The same at the current token, -EINVAL. */
#define ptx_fail(p, ...)                                                               \
    ptx_fail_at(p, (p)->lex.tok_line, (p)->lex.tok_col, -EINVAL, __VA_ARGS__)
#define ptx_too_big(p, ...)                                                            \
    ptx_fail_at(p, (p)->lex.tok_line, (p)->lex.tok_col, -E2BIG, __VA_ARGS__)
int ptx_no_memory(struct ptx_parser *p);
/* "expected @what, found ..." */
int ptx_expected(struct ptx_parser *p, const char *what);

static inline bool
ptx_accept(struct ptx_parser *p, int tok)
{
    if ((int)p->lex.tok != tok)
        return false;
    ptx_lex_next(&p->lex);
    return true;
}
int ptx_expect(struct ptx_parser *p, int tok);

static inline bool
ptx_at_dot(const struct ptx_parser *p, unsigned word)
{
    return p->lex.tok == PTX_TOK_DOT && p->lex.name->word == word;
}

/* .file, .loc, .section, .pragma, @@: accepted anywhere.  The first two are noted, the
 * others dropped.
 * 1: it was one of them; 0: it was not. */
int ptx_parse_debug(struct ptx_parser *p);

/* ---- scopes (ptx_scope.c) ---- */

int ptx_scope_open(struct ptx_parser *p);
/* Resolves the labels of the scope; what is left goes to the scope around. */
int ptx_scope_close(struct ptx_parser *p);

int ptx_scope_bind_var(struct ptx_parser *p, struct ptx_name *name,
                       struct ptx_var *var);
int ptx_scope_bind_func(struct ptx_parser *p, struct ptx_name *name,
                        struct ptx_func *func);
int ptx_scope_bind_label(struct ptx_parser *p, struct ptx_name *name,
                         struct ptx_label *label);
/* Declare one register; *ret_reg may be NULL. */
int ptx_scope_bind_reg(struct ptx_parser *p, struct ptx_name *name, unsigned type,
                       unsigned vec, uint32_t *ret_reg);
int ptx_scope_bind_range(struct ptx_parser *p, struct ptx_name *prefix, unsigned type,
                         unsigned vec, uint32_t count);
/* What the name means here; a register of a range is made on its first use.
 * *ret NULL: nothing that is known. */
int ptx_scope_lookup(struct ptx_parser *p, struct ptx_name *name,
                     struct ptx_binding **ret);
/* @opd (final place, kind PTX_OPD_SYM) waits for a label. */
int ptx_scope_defer(struct ptx_parser *p, struct ptx_opd *opd, bool keep);

/* ---- constant expressions (ptx_expr.c) ---- */

struct ptx_val {
    uint8_t kind; /* PTX_OPD_INT, PTX_OPD_F32, PTX_OPD_F64 */
    bool is_unsigned;
    uint64_t bits;
};

/* How much of an expression belongs to it. */
enum ptx_prec {
    PTX_PREC_ALL,       /* with ?: */
    PTX_PREC_SHIFT = 8, /* no comparison: inside < > */
    PTX_PREC_SUM = 9,
    PTX_PREC_PRODUCT = 10,
};

bool ptx_at_expr(const struct ptx_parser *p);
int ptx_parse_expr(struct ptx_parser *p, enum ptx_prec prec, struct ptx_val *ret);
/* An integer constant of at most @max. */
int ptx_parse_uint(struct ptx_parser *p, enum ptx_prec prec, uint64_t max,
                   const char *what, uint64_t *ret);
/* + expr, - expr, or nothing, as a sum. */
int ptx_parse_addend(struct ptx_parser *p, int64_t *ret);

/* ---- declarations (ptx_decl.c, ptx_init.c) ---- */

/* The directives in front of a name. */
struct ptx_decl {
    uint8_t space;
    uint8_t linkage;
    uint8_t vec;
    bool has_space;
    bool is_ptr;
    bool managed;
    uint8_t ptr_space;
    uint16_t type;
    uint32_t align;
    uint32_t ptr_align;
};

bool ptx_word_space(unsigned word, uint8_t *ret);
bool ptx_word_linkage(unsigned word, uint8_t *ret);
/* Directives up to a name; @decl may already hold a linkage. */
int ptx_parse_decl(struct ptx_parser *p, struct ptx_decl *decl);
/* `name dims`, into a new variable.  `_` gives one without a name. */
int ptx_parse_declarator(struct ptx_parser *p, const struct ptx_decl *decl,
                         struct ptx_var **ret);
/* A whole variable or register declaration up to its `;`. */
int ptx_parse_var(struct ptx_parser *p, uint8_t linkage);
/* Behind the `=`. */
int ptx_parse_init(struct ptx_parser *p, struct ptx_var *var);

/* ---- functions (ptx_func.c, ptx_body.c, ptx_opd.c) ---- */

int ptx_parse_func(struct ptx_parser *p, uint8_t linkage);
/* `(rets) name (params)` of a .callprototype. */
int ptx_parse_prototype(struct ptx_parser *p, struct ptx_func **ret);
int ptx_parse_body(struct ptx_parser *p);
/* One operand, pushed on p->opds. */
int ptx_parse_operand(struct ptx_parser *p, unsigned op);
/* The operands from index @from of p->opds as an array in the arena. */
int ptx_opds_take(struct ptx_parser *p, uint32_t from, bool keep,
                  const struct ptx_opd **ret, uint32_t *ret_n);

#endif
