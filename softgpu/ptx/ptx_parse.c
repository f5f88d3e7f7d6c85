/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module level: directives, what debuggers want to know, and ptx_parse() itself.
 */
#include "ptx_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

int
ptx_fail_at(struct ptx_parser *p, uint32_t line, uint32_t col, int code,
            const char *fmt, ...)
{
    char words[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(words, sizeof(words), fmt, ap);
    va_end(ap);
    return gp_err_set(p->err, code, "line %u:%u: %s", line, col, words);
}

int
ptx_no_memory(struct ptx_parser *p)
{
    return ptx_fail_at(p, p->lex.tok_line, p->lex.tok_col, -ENOMEM,
                       "no memory for the module, which may take %zu bytes and has %zu",
                       PTX_MAX_MEMORY, p->arena->total);
}

int
ptx_expected(struct ptx_parser *p, const char *what)
{
    const struct ptx_lex *lex = &p->lex;

    switch (lex->tok) {
    case PTX_TOK_BAD:
        return lex->why ? ptx_fail(p, "%s", lex->why) : ptx_no_memory(p);
    case PTX_TOK_END:
        return ptx_fail(p, "expected %s, found the end of the text", what);
    default:
        return ptx_fail(p, "expected %s, found '%.*s'", what, gp_min((int)lex->len, 80),
                        lex->text);
    }
}

int
ptx_expect(struct ptx_parser *p, int tok)
{
    char what[] = "' '";

    if (ptx_accept(p, tok))
        return 0;
    what[1] = (char)tok;
    return ptx_expected(p, what);
}

/* ---- for debuggers ---- */

static int
skip_ints(struct ptx_parser *p)
{
    while (p->lex.tok == PTX_TOK_INT)
        ptx_lex_next(&p->lex);
    return 0;
}

/* The next number, or 0. */
static uint32_t
take_number(struct ptx_parser *p)
{
    uint64_t n = p->lex.tok == PTX_TOK_INT ? p->lex.bits : 0;

    ptx_accept(p, PTX_TOK_INT);
    return (uint32_t)gp_min(n, (uint64_t)UINT32_MAX);
}

/* .loc 1 42 3 [, function_name label [+ 4]] [, inlined_at 1 40 2] */
static int
parse_loc(struct ptx_parser *p)
{
    struct ptx_loc *loc, at = {.line = p->lex.tok_line};

    at.file = take_number(p);
    at.source = take_number(p);
    skip_ints(p);
    if (p->func) {
        loc = ptx_vec_push(&p->locs, sizeof(*loc));
        if (!loc)
            return ptx_no_memory(p);
        *loc = at;
    }
    while (ptx_accept(p, ',')) {
        if (p->lex.tok != PTX_TOK_NAME)
            return ptx_expected(p, "function_name or inlined_at");
        ptx_lex_next(&p->lex);
        if (ptx_accept(p, PTX_TOK_NAME) && ptx_accept(p, '+'))
            ptx_accept(p, PTX_TOK_INT);
        skip_ints(p);
    }
    return 0;
}

/* .file 1 "name" [, time, size] */
static int
parse_file(struct ptx_parser *p)
{
    uint32_t number = take_number(p);
    struct ptx_file *file;
    char *name;

    skip_ints(p);
    if (p->lex.tok != PTX_TOK_STRING)
        return ptx_expected(p, "a file name");
    name = ptx_arena_alloc(p->arena, p->lex.len + 1);
    file = ptx_vec_push(&p->files, sizeof(*file));
    if (!name || !file)
        return ptx_no_memory(p);
    memcpy(name, p->lex.text, p->lex.len);
    *file = (struct ptx_file){number, name};
    ptx_lex_next(&p->lex);
    while (ptx_accept(p, ','))
        skip_ints(p);
    return 0;
}

/* .section .debug_str { ... } */
static int
skip_section(struct ptx_parser *p)
{
    unsigned open = 0;

    if (p->lex.tok == PTX_TOK_DOT || p->lex.tok == PTX_TOK_NAME)
        ptx_lex_next(&p->lex);
    if (p->lex.tok != '{')
        return ptx_expected(p, "'{'");
    do {
        if (p->lex.tok == '{')
            open++;
        else if (p->lex.tok == '}')
            open--;
        else if (p->lex.tok == PTX_TOK_END || p->lex.tok == PTX_TOK_BAD)
            return ptx_expected(p, "'}' of a section");
        ptx_lex_next(&p->lex);
    } while (open);
    return 0;
}

/* .pragma "a", "b"; */
static int
skip_pragma(struct ptx_parser *p)
{
    do {
        if (!ptx_accept(p, PTX_TOK_STRING))
            return ptx_expected(p, "a string");
    } while (ptx_accept(p, ','));
    return ptx_expect(p, ';');
}

int
ptx_parse_debug(struct ptx_parser *p)
{
    int (*rest)(struct ptx_parser *);
    int r;

    switch (p->lex.name->word) {
    case PTX_W_loc:
        rest = parse_loc;
        break;
    case PTX_W_file:
        rest = parse_file;
        break;
    case PTX_W_section:
        rest = skip_section;
        break;
    case PTX_W_pragma:
        rest = skip_pragma;
        break;
    default:
        return 0;
    }
    ptx_lex_next(&p->lex);
    r = rest(p);
    return r < 0 ? r : 1;
}

/* ---- module directives ---- */

/* Digits at *text, at most 8 of them. */
static bool
scan_number(const char **text, uint32_t *ret)
{
    const char *c = *text;
    uint32_t value = 0;

    while (*c >= '0' && *c <= '9' && c - *text < 8)
        value = value * 10 + (uint32_t)(*c++ - '0');
    if (c == *text)
        return false;
    *text = c;
    *ret = value;
    return true;
}

/* .version 9.0: the lexer takes it for a float; its spelling is what counts. */
static int
parse_version(struct ptx_parser *p)
{
    struct ptx_module *mod = p->mod;
    const char *c = p->lex.text;

    if (mod->version_major)
        return ptx_fail(p, "second .version");
    if (p->lex.tok != PTX_TOK_F64 || !scan_number(&c, &mod->version_major) ||
        *c++ != '.' || !scan_number(&c, &mod->version_minor) ||
        c != p->lex.text + p->lex.len)
        return ptx_expected(p, "a version like 9.0");
    ptx_lex_next(&p->lex);
    return 0;
}

static bool
scan_target(struct ptx_module *mod, const char *text)
{
    if (strncmp(text, "sm_", 3) == 0)
        text += 3;
    else if (strncmp(text, "compute_", 8) == 0)
        text += 8;
    else
        return false;
    if (!scan_number(&text, &mod->sm))
        return false;
    if (*text == 'a')
        mod->target_flags |= PTX_TARGET_ARCH;
    else if (*text == 'f')
        mod->target_flags |= PTX_TARGET_FAMILY;
    else
        return *text == 0;
    return text[1] == 0;
}

/* .target sm_86, texmode_independent, debug */
static int
parse_target(struct ptx_parser *p)
{
    static const struct {
        const char *text;
        unsigned flag;
    } options[] = {
        {"debug", PTX_TARGET_DEBUG},
        {"texmode_independent", PTX_TARGET_TEX_INDEPENDENT},
        {"map_f64_to_f32", PTX_TARGET_MAP_F64},
    };

    do {
        const char *text;

        if (p->lex.tok != PTX_TOK_NAME)
            return ptx_expected(p, "a target like sm_86");
        text = p->lex.name->sym.name;
        if (!p->mod->sm && !scan_target(p->mod, text))
            return ptx_expected(p, "a target like sm_86");
        /* options that nobody knows change nothing that we could do */
        for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
            if (strcmp(text, options[i].text) == 0)
                p->mod->target_flags |= options[i].flag;
        }
        ptx_lex_next(&p->lex);
    } while (ptx_accept(p, ','));
    return 0;
}

static int
parse_address_size(struct ptx_parser *p)
{
    uint64_t size;
    int r = ptx_parse_uint(p, PTX_PREC_ALL, 64, "address size", &size);

    if (r == 0 && size != 32 && size != 64)
        return ptx_fail(p, "address size is 32 or 64");
    if (r == 0)
        p->mod->address_size = (uint32_t)size;
    return r;
}

static int
parse_func_name(struct ptx_parser *p, struct ptx_func **ret)
{
    const struct ptx_name *name = p->lex.name;

    if (p->lex.tok != PTX_TOK_NAME || !name->bind || name->bind->kind != PTX_BIND_FUNC)
        return ptx_expected(p, "a function's name");
    *ret = name->bind->func;
    ptx_lex_next(&p->lex);
    return 0;
}

/* .alias name, other; */
static int
parse_alias(struct ptx_parser *p)
{
    struct ptx_func *alias = NULL, *other = NULL;
    int r;

    r = parse_func_name(p, &alias);
    if (r == 0)
        r = ptx_expect(p, ',');
    if (r == 0)
        r = parse_func_name(p, &other);
    if (r < 0)
        return r;
    if (alias->has_body || alias->alias || alias == other || other->alias)
        return ptx_fail(p, "'%s' cannot be an alias of '%s'", alias->name->name,
                        other->name->name);
    alias->alias = other;
    return ptx_expect(p, ';');
}

/* Linkage, then a function or a variable. */
static int
parse_definition(struct ptx_parser *p)
{
    uint8_t linkage = PTX_LINK_LOCAL;

    while (p->lex.tok == PTX_TOK_DOT && ptx_word_linkage(p->lex.name->word, &linkage))
        ptx_lex_next(&p->lex);
    if (p->lex.tok != PTX_TOK_DOT)
        return ptx_expected(p, "a directive");
    if (p->lex.name->word == PTX_W_entry || p->lex.name->word == PTX_W_func)
        return ptx_parse_func(p, linkage);
    return ptx_parse_var(p, linkage);
}

static int
parse_directive(struct ptx_parser *p)
{
    int r = ptx_parse_debug(p);

    if (r)
        return gp_min(r, 0);
    switch (p->lex.name->word) {
    case PTX_W_version:
        ptx_lex_next(&p->lex);
        return parse_version(p);
    case PTX_W_target:
        ptx_lex_next(&p->lex);
        return parse_target(p);
    case PTX_W_address_size:
        ptx_lex_next(&p->lex);
        return parse_address_size(p);
    case PTX_W_alias:
        ptx_lex_next(&p->lex);
        return parse_alias(p);
    default:
        return parse_definition(p);
    }
}

static int
parse_module(struct ptx_parser *p)
{
    int r = 0;

    if (!ptx_at_dot(p, PTX_W_version))
        return ptx_expected(p, "'.version': PTX starts with it");
    while (r == 0 && p->lex.tok != PTX_TOK_END) {
        if (p->lex.tok == PTX_TOK_DOT)
            r = parse_directive(p);
        else if (p->lex.tok == '@' && *p->lex.cur == '@') /* @@DWARF: old debug lines */
            ptx_lex_skip_line(&p->lex);
        else if (p->lex.tok == ';')
            ptx_lex_next(&p->lex);
        else
            r = ptx_expected(p, "a directive");
    }
    if (r == 0 && !p->mod->sm)
        r = ptx_fail(p, "the module has no .target");
    return r;
}

/* ---- begin and end ---- */

static int
finish_module(struct ptx_parser *p)
{
    struct ptx_module *mod = p->mod;
    const struct ptx_file *files;

    mod->vars =
        ptx_arena_copy(p->arena, p->vars.data, p->vars.n * sizeof(struct ptx_var *));
    mod->funcs =
        ptx_arena_copy(p->arena, p->funcs.data, p->funcs.n * sizeof(struct ptx_func *));
    files = ptx_arena_copy(p->arena, p->files.data, p->files.n * sizeof(*files));
    if (!mod->vars || !mod->funcs || !files)
        return ptx_no_memory(p);
    mod->n_vars = p->vars.n;
    mod->n_funcs = p->funcs.n;
    for (uint32_t i = 0; i < p->funcs.n; i++) { /* .file may come behind them */
        struct ptx_func *func = ((struct ptx_func **)p->funcs.data)[i];
        func->files = files;
        func->n_files = p->files.n;
    }
    return 0;
}

static void
parser_fini(struct ptx_parser *p)
{
    struct ptx_vec *vecs[] = {&p->vars,   &p->funcs,  &p->regs,   &p->func_vars,
                              &p->insns,  &p->labels, &p->tables, &p->opds,
                              &p->relocs, &p->bytes,  &p->locs,   &p->files};

    for (size_t i = 0; i < ARRAY_SIZE(vecs); i++)
        ptx_vec_fini(vecs[i]);
    ptx_arena_fini(&p->scratch);
}

int
ptx_parse(const char *text, size_t len, struct ptx_module **ret, struct gp_err *err)
{
    CLEANUP(ptx_module_freep) struct ptx_module *mod = NULL;
    CLEANUP_FREE char *copy = NULL;
    struct ptx_parser p = {.err = err};
    int r;

    len = strnlen(text, len);
    if (len > PTX_MAX_TEXT)
        return gp_err_set(err, -E2BIG, "PTX text of %zu bytes, the limit is %zu", len,
                          PTX_MAX_TEXT);
    mod = ptx_module_new();
    copy = malloc(len + 1); /* the lexer wants its NUL */
    if (!mod || !copy)
        return gp_err_set(err, -ENOMEM, "no memory for a PTX module of %zu bytes", len);
    memcpy(copy, text, len);
    copy[len] = 0;

    mod->priv->arena.limit = PTX_MAX_MEMORY;
    p.mod = mod;
    p.arena = &mod->priv->arena;
    p.names = &mod->priv->names;
    /* A few characters must not become hundreds of megabytes of zeros. */
    p.init_cap = gp_min((uint64_t)len * 64 + (1u << 20), PTX_MAX_INIT_BYTES);
    ptx_lex_init(&p.lex, copy, p.names);
    r = parse_module(&p);
    if (r == 0)
        r = finish_module(&p);
    parser_fini(&p);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(mod);
    return 0;
}
