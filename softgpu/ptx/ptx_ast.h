/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PTX module as a checked syntax tree: names are resolved to objects,
 * numbers to bits, words to integers.  It says what the text says and nothing
 * about how to run it.
 *
 * ptx_parse() builds it, ptx_module_free() ends it; every pointer in here
 * lives in the module's arena until then.  Nothing in a finished module
 * changes, so any number of threads may read it.  It is not a program: no
 * instruction has been looked up in a table of instructions yet, and one that
 * nobody knows is kept like any other (exec/ poisons its function).
 */
#ifndef PTX_AST_H
#define PTX_AST_H

#include "gp_base.h"
#include "ptx_words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct ptx_module;

/* Caps against hostile text.  The largest values met in 1,700 files of real
 * modules (GCC's nvptx libraries, CUDA samples, CUB) are in brackets. */
#define PTX_MAX_TEXT ((size_t)1 << 30) /* bytes of text: positions fit 32 bits  */
#define PTX_MAX_MEMORY                                                                 \
    ((size_t)2 << 30)           /* of the tree: text times 5, at worst times 16 */
#define PTX_MAX_REGS (1u << 20) /* registers of one function [49,000]    */
#define PTX_MAX_DIMS 8          /* array dimensions [3]                  */
#define PTX_MAX_NEST 64         /* nested { } or ( ) [6]                 */
#define PTX_MAX_OPERANDS 255    /* of one instruction [13]               */
#define PTX_MAX_VECTOR 512      /* elements in { } or ( ) [128]          */
#define PTX_MAX_MODIFIERS 32    /* of one instruction [11]               */
#define PTX_MAX_PARAMS 4096     /* of one function [60]                  */
#define PTX_MAX_WORDS 60000     /* words beyond ours in one module [0]   */
#define PTX_MAX_VAR_BYTES ((uint64_t)1 << 40) /* one variable: a card's memory */
#define PTX_MAX_INIT_BYTES                                                             \
    ((uint64_t)1 << 28)           /* initialised bytes of a module,                    \
                                     and 64 per character + 1 MiB */
#define PTX_MAX_PARAM_BYTES 32764 /* of a kernel: the language's own limit */
#define PTX_MAX_ALIGN 65536       /* of a variable [1024]                  */

/* A name.  Equal names in one module are one object: compare pointers. */
struct ptx_sym {
    const char *name; /* NUL-terminated */
    uint32_t len;
    uint32_t hash;
};

enum ptx_space {
    PTX_SPACE_REG, /* a parameter of a .func that is a register */
    PTX_SPACE_CONST,
    PTX_SPACE_GLOBAL,
    PTX_SPACE_LOCAL,
    PTX_SPACE_PARAM,
    PTX_SPACE_SHARED,
    PTX_SPACE_TEX, /* the deprecated .tex variables */
};

enum ptx_linkage {
    PTX_LINK_LOCAL, /* no directive: only this module sees it */
    PTX_LINK_VISIBLE,
    PTX_LINK_EXTERN, /* declared, defined elsewhere */
    PTX_LINK_WEAK,
    PTX_LINK_COMMON,
};

/* ---- registers ------------------------------------------------------------ */

/* Operands name a register by its index in ptx_func.regs. */
struct ptx_reg {
    const struct ptx_sym *name; /* of a range (%r<100>): the part before <      */
    uint32_t num;               /* its number in the range, PTX_REG_SINGLE: none */
    uint16_t type;              /* PTX_W_b32, PTX_W_pred...                     */
    uint8_t vec;                /* 1, 2, 4: components of a vector register     */
    uint8_t depth;              /* of the { } it was declared in, 1 = the body  */
};

#define PTX_REG_SINGLE UINT32_MAX
#define PTX_REG_NONE UINT32_MAX /* where an index may be missing */

/* ---- variables ------------------------------------------------------------ */

enum ptx_reloc_kind {
    PTX_RELOC_VAR,  /* address of a variable in its own state space */
    PTX_RELOC_FUNC, /* address of a function or kernel              */
};

/* An address inside an initialiser.  The value stored is
 * ((address + addend) >> 8 * shift_bytes), @size bytes of it. */
struct ptx_reloc {
    uint64_t offset; /* in the variable */
    int64_t addend;
    uint8_t kind;        /* enum ptx_reloc_kind */
    uint8_t size;        /* 1..8 bytes stored at @offset */
    uint8_t shift_bytes; /* from mask(): 0xff00(sym) is size 1, shift 1 */
    bool generic;        /* generic(sym): the generic address is meant */
    union {
        const struct ptx_var *var;
        const struct ptx_func *func;
    };
};

/* name = value of an opaque variable, as in { filter_mode = nearest }. */
struct ptx_field {
    const struct ptx_sym *name;
    const struct ptx_sym *word; /* NULL when it is a number */
    int64_t number;
    const struct ptx_field *next;
};

struct ptx_var {
    const struct ptx_sym *name; /* NULL: `_` in a prototype */
    uint8_t space;              /* enum ptx_space   */
    uint8_t linkage;            /* enum ptx_linkage */
    uint8_t vec;                /* 1, 2, 4, 8       */
    uint8_t n_dims;             /* 0: a scalar or one vector */
    uint16_t type;              /* PTX_W_b8, PTX_W_texref... */
    bool managed;
    bool is_ptr;        /* .ptr, of a kernel parameter             */
    uint8_t ptr_space;  /* enum ptx_space; PTX_SPACE_REG = generic */
    uint32_t ptr_align; /* .ptr .align, 0 = not given              */
    uint32_t align;     /* always a power of two, natural if not given */
    uint32_t line;      /* of the declaration                      */
    uint32_t id;        /* dense among the module's variables, or among
                           the function's own (ptx_func.vars, params, rets
                           each count from 0)                       */
    uint32_t reg;       /* PTX_SPACE_REG: index in the function's regs */
    uint64_t elem_size; /* type size * vec                         */
    uint64_t size;      /* bytes; 0 for `x[]`                      */
    uint64_t offset;    /* parameters: in the parameter block      */
    uint64_t dims[PTX_MAX_DIMS];
    const struct ptx_func *func; /* the owner, NULL at module level  */

    /* The first init_len bytes; the rest is zero.  Relocations lie inside
     * [0, size), may lie behind init_len, and are sorted by offset. */
    const uint8_t *init;
    uint64_t init_len;
    const struct ptx_reloc *relocs;
    uint32_t n_relocs;
    bool has_init;
    const struct ptx_field *fields; /* of texref, samplerref, surfref */
};

/* ---- instructions --------------------------------------------------------- */

enum ptx_opd_kind {
    PTX_OPD_NONE,
    PTX_OPD_REG,     /* reg, comp: %r1, %v.x, %r1.b0                            */
    PTX_OPD_SINK,    /* _                                                       */
    PTX_OPD_INT,     /* imm: 64 bits, two's complement; PTX_OPF_UNSIGNED: has U */
    PTX_OPD_F32,     /* imm: low 32 bits are the value's bits (0f3F800000)      */
    PTX_OPD_F64,     /* imm: the bits of 0d... or of a decimal literal          */
    PTX_OPD_SREG,    /* reg: enum ptx_sreg; imm: index of %envreg7; comp        */
    PTX_OPD_VAR,     /* var, imm: address of a variable plus imm bytes          */
    PTX_OPD_FUNC,    /* func: a function's name                                 */
    PTX_OPD_LABEL,   /* label: a jump target, table or call prototype           */
    PTX_OPD_ADDR,    /* [...]: base, reg/var, imm; see below                    */
    PTX_OPD_TEXADDR, /* [a, b, {c}]: sub[0] is an ADDR, sub[1..n) what follows  */
    PTX_OPD_VEC,     /* {a, _, b}: sub[0..n); a whole vector register: its x, y */
    PTX_OPD_PAIR,    /* p|q: sub[0], sub[1]                                     */
    PTX_OPD_LIST,    /* (a, b): call arguments or results, sub[0..n)            */
    PTX_OPD_SYM,     /* sym: unknown name, only in instructions we do not know  */
};

enum {
    PTX_OPF_NOT = 1,      /* !%p */
    PTX_OPF_NEG = 2,      /* -%r (video instructions) */
    PTX_OPF_UNSIGNED = 4, /* the literal carried U, or does not fit int64 */
    PTX_OPF_UNIFIED = 8,  /* [a].unified */
};

enum ptx_comp {
    PTX_COMP_NONE,
    PTX_COMP_X,  /* also .r */
    PTX_COMP_Y,  /* also .g */
    PTX_COMP_Z,  /* also .b */
    PTX_COMP_W,  /* also .a */
    PTX_COMP_B0, /* bytes and halves of video instructions */
    PTX_COMP_B1,
    PTX_COMP_B2,
    PTX_COMP_B3,
    PTX_COMP_H0,
    PTX_COMP_H1,
    PTX_COMP_SELECT, /* .b3210, .h10...: imm is the selector's digits, packed
                        four bits each, first digit highest; n their number,
                        PTX_OPF_UNSIGNED set for h */
};

/* An address is base + reg * scale + imm:
 *   [%rd1+8]   base REG,  reg, scale 1, imm 8
 *   [x+8] x[2] base VAR,  var, reg PTX_REG_NONE, imm in bytes
 *   [x+%r1]    base VAR,  var, reg, scale 1; x[%r1+1] has scale = element size
 *   [64]       base INT,  imm
 * A variable's name without brackets is PTX_OPD_VAR. */
struct ptx_opd {
    uint8_t kind;  /* enum ptx_opd_kind */
    uint8_t flags; /* PTX_OPF_* */
    uint8_t comp;  /* enum ptx_comp */
    uint8_t base;  /* ADDR: PTX_OPD_REG, _VAR, _FUNC or _INT */
    uint32_t n;    /* number of sub; ADDR: scale */
    uint32_t reg;  /* REG, ADDR: register; SREG: enum ptx_sreg */
    uint32_t line; /* SYM, LABEL: where it is */
    uint64_t imm;
    union {
        const struct ptx_opd *sub;
        const struct ptx_var *var;
        const struct ptx_func *func;
        const struct ptx_label *label;
        const struct ptx_sym *sym;
    };
};

#define ptx_opd_scale(opd) ((opd)->n)

enum {
    PTX_INSN_GUARD = 1,  /* @%p: reg in guard          */
    PTX_INSN_NEG = 2,    /* @!%p                       */
    PTX_INSN_OPAQUE = 4, /* unknown instruction whose operands made no sense
                            either: it has none here   */
};

struct ptx_insn {
    uint16_t op;   /* PTX_W_ld...; >= PTX_W_COUNT: unknown */
    uint8_t flags; /* PTX_INSN_* */
    uint8_t n_mods;
    uint8_t n_opds;
    uint32_t line;
    uint32_t guard;       /* index in regs, PTX_REG_NONE */
    const uint16_t *mods; /* in the order of the text; types among them */
    const struct ptx_opd *opds;
};

enum ptx_label_kind {
    PTX_LABEL_CODE,      /* at: index of the instruction behind it; may be n_insns */
    PTX_LABEL_BRANCHES,  /* .branchtargets: labels, n                 */
    PTX_LABEL_CALLS,     /* .calltargets: funcs, n                    */
    PTX_LABEL_PROTOTYPE, /* .callprototype: proto, a func without body */
};

struct ptx_label {
    const struct ptx_sym *name;
    uint8_t kind; /* enum ptx_label_kind */
    uint32_t id;  /* dense in the function */
    uint32_t at;
    uint32_t line;
    uint32_t n;
    union {
        const struct ptx_label *const *labels;
        const struct ptx_func *const *funcs;
        const struct ptx_func *proto;
    };
};

/* ---- functions ------------------------------------------------------------ */

/* .loc: instructions from line @line of the text on come from line @source of the file
 * with the number @file. */
struct ptx_loc {
    uint32_t line;
    uint32_t source;
    uint32_t file;
};

/* .file */
struct ptx_file {
    uint32_t number;
    const char *name;
};

struct ptx_func {
    const struct ptx_sym *name; /* NULL: `_` in a prototype */
    uint8_t linkage;            /* enum ptx_linkage */
    bool is_entry;
    bool has_body;
    bool noreturn;
    bool explicit_cluster;
    uint32_t id; /* dense in the module */
    uint32_t line;
    const struct ptx_func *alias; /* .alias this, other; NULL: none */

    const struct ptx_var *const *params; /* is_entry: offsets are the launch layout */
    const struct ptx_var *const *rets;
    uint32_t n_params;
    uint32_t n_rets;
    uint32_t param_bytes; /* of an entry: end of the last parameter */

    uint32_t maxntid[3]; /* 0,0,0: not given; else missing dimensions are 1 */
    uint32_t reqntid[3];
    uint32_t reqnctapercluster[3];
    uint32_t minnctapersm;
    uint32_t maxnctapersm;
    uint32_t maxnreg;
    uint32_t maxclusterrank;

    const struct ptx_reg *regs;
    uint32_t n_regs;
    const struct ptx_var *const *vars; /* declared in the body: .local, .shared,
                                          .param of calls, .global, .const */
    uint32_t n_vars;
    const struct ptx_insn *insns;
    uint32_t n_insns;
    const struct ptx_label *const *labels;
    uint32_t n_labels;
    const struct ptx_loc *locs; /* in the order of the text */
    uint32_t n_locs;
    const struct ptx_file *files; /* of the module that it was written in */
    uint32_t n_files;
};

/* ---- the module ----------------------------------------------------------- */

enum {
    PTX_TARGET_ARCH = 1,   /* sm_90a: only exactly this one */
    PTX_TARGET_FAMILY = 2, /* sm_100f: this family          */
    PTX_TARGET_DEBUG = 4,
    PTX_TARGET_TEX_INDEPENDENT = 8,
    PTX_TARGET_MAP_F64 = 16, /* map_f64_to_f32 */
};

struct ptx_module {
    uint32_t version_major;
    uint32_t version_minor;
    uint32_t sm;           /* 86 for sm_86 */
    uint32_t target_flags; /* PTX_TARGET_* */
    uint32_t address_size; /* 32 or 64 */

    const struct ptx_var *const *vars; /* module level */
    const struct ptx_func *const *funcs;
    uint32_t n_vars;
    uint32_t n_funcs;
    struct ptx_priv *priv; /* arena and names */
};

/* Parse @len bytes of PTX text.  The text ends at @len or at the first NUL and
 * is not needed afterwards.  -EINVAL: a syntax or naming error; @err says
 * "line 12:5: expected ...".  -E2BIG: a cap above.  -ENOMEM. */
int ptx_parse(const char *text, size_t len, struct ptx_module **ret,
              struct gp_err *err);
void ptx_module_free(struct ptx_module *mod); /* NULL is a no-op */
DEFINE_CLEANUP(struct ptx_module, ptx_module_free)

/* By name; NULL when the module has none.  Functions: entries too. */
const struct ptx_func *ptx_module_func(const struct ptx_module *mod, const char *name);
const struct ptx_var *ptx_module_var(const struct ptx_module *mod, const char *name);

/* The text of a word, without the dot: "u32", "shared::cta".  Never NULL. */
const char *ptx_word_name(const struct ptx_module *mod, unsigned word);
const char *ptx_sreg_name(unsigned sreg);
unsigned ptx_sreg_comps(unsigned sreg); /* 0: no components */

/* Bytes of a type word; 0: not a type, or one without a size of its own. */
unsigned ptx_type_size(unsigned word);

static inline bool
ptx_word_is_type(unsigned word)
{
    return word > PTX_W_NONE && word <= PTX_W_TYPE_LAST;
}

/* Put the parameters of all kernels where a card of compute capability @sm has them. Up
 * to then each has the offset that is a multiple of its alignment. */
void ptx_module_place_params(struct ptx_module *mod, unsigned sm);

/* The kernel parameter layout, as cuFuncGetParamInfo reports it. */
struct ptx_param_info {
    uint32_t offset;
    uint32_t size;
    uint32_t align;
};

/* Where line @line of the PTX text comes from, by the function's .loc directives.
 * false: they do not say.  *ret_file may be "?": a .file with that number is missing.
 */
bool ptx_func_source(const struct ptx_func *func, uint32_t line, const char **ret_file,
                     uint32_t *ret_line);

/* -EINVAL: @index is not a parameter of @func. */
int ptx_func_param(const struct ptx_func *func, uint32_t index,
                   struct ptx_param_info *ret);

#endif
