/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing and searching the instruction table; see sg_isa.h and ptx_isa.def.
 */
#include "sg_isa.h"

#include "lower.h"
#include "sg_exec.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct isa_row rows[] = {
#define ROW(op_, kind_, mods_, types_, code_, lower_)                                  \
    {.op = PTX_W_##op_,                                                                \
     .kind = kind_,                                                                    \
     .mods = mods_,                                                                    \
     .types = types_,                                                                  \
     .code = code_,                                                                    \
     .lower = lower_},
#define ALU(op, mods, types, what) ROW(op, ISA_ALU, mods, types, SG_OP_##what, NULL)
#define A16(op, mods, types, what) ROW(op, ISA_A16, mods, types, SG_OP_##what, NULL)
#define S16(op, mods, types, what) ROW(op, ISA_S16, mods, types, SG_OP_##what, NULL)
#define FN(op, mods, types, what) ROW(op, ISA_FN, mods, types, SG_FN_##what, NULL)
#define FNH(op, mods, types, what) ROW(op, ISA_FNH, mods, types, SG_FN_##what, NULL)
#define DO(op, mods, types, what) ROW(op, ISA_DO, mods, types, 0, lower_##what)
#include "ptx_isa.def"
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static uint16_t first_row[PTX_W_COUNT + 1]; /* index + 1 of an opcode's first row */
static uint16_t next_row[N_ROWS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
    const char *text;
    uint16_t id;
} words[] = {
#define X3(id, text, size) {text, PTX_W_##id},
#define X2(id, text) {text, PTX_W_##id},
    PTX_TYPE_WORDS(X3) PTX_SPACE_WORDS(X2) PTX_OPCODE_WORDS(X2) PTX_MODIFIER_WORDS(X2)
        PTX_DIRECTIVE_WORDS(X2)
#undef X2
#undef X3
};

/* Words that say how memory is cached, ordered or shared and change nothing here:
 * orderings that do are looked at by the lowering functions. */
static bool
is_memory_word(unsigned w)
{
    static const uint16_t list[] = {
        PTX_W_global,
        PTX_W_const,
        PTX_W_local,
        PTX_W_param,
        PTX_W_shared,
        PTX_W_shared__cta,
        PTX_W_shared__cluster,
        PTX_W_param__entry,
        PTX_W_param__func,
        PTX_W_ca,
        PTX_W_cg,
        PTX_W_cs,
        PTX_W_lu,
        PTX_W_cv,
        PTX_W_wb,
        PTX_W_wt,
        PTX_W_nc,
        PTX_W_volatile,
        PTX_W_weak,
        PTX_W_relaxed,
        PTX_W_acquire,
        PTX_W_release,
        PTX_W_acq_rel,
        PTX_W_sc,
        PTX_W_mmio,
        PTX_W_cta,
        PTX_W_cluster,
        PTX_W_gpu,
        PTX_W_sys,
        PTX_W_L1__evict_normal,
        PTX_W_L1__evict_unchanged,
        PTX_W_L1__evict_first,
        PTX_W_L1__evict_last,
        PTX_W_L1__no_allocate,
        PTX_W_L2__evict_normal,
        PTX_W_L2__evict_first,
        PTX_W_L2__evict_last,
        PTX_W_L2__evict_unchanged,
        PTX_W_L2__cache_hint,
        PTX_W_L2__64B,
        PTX_W_L2__128B,
        PTX_W_L2__256B,
        PTX_W_L2,
        PTX_W_L1,
        PTX_W_unified,
    };

    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        if (list[i] == w)
            return true;
    return false;
}

static unsigned
word_find(const char *s, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strlen(words[i].text) == len && memcmp(words[i].text, s, len) == 0)
            return words[i].id;
    return PTX_W_NONE; /* the unit test over the table finds these */
}

#define GROUP_OPTIONAL 0x80
#define ANY_MEM 0xffff
#define ANY_M64 0xfffe

static uint16_t
mod_find(const char *s, size_t len)
{
    if (len == 4 && memcmp(s, "%mem", 4) == 0)
        return ANY_MEM;
    if (len == 4 && memcmp(s, "%m64", 4) == 0)
        return ANY_M64;
    return (uint16_t)word_find(s, len);
}

static void
row_parse_mods(struct isa_row *row)
{
    const char *s = row->mods;

    while (*s) {
        uint8_t group = row->n_groups++;
        if (*s == '?') {
            group |= GROUP_OPTIONAL;
            s++;
        }
        while (*s && *s != ' ') {
            size_t len = strcspn(s, " |");
            if (row->n_mod < ISA_MAX_MODS) {
                row->mod[row->n_mod] = mod_find(s, len);
                row->group[row->n_mod++] = group;
            }
            s += len;
            if (*s == '|')
                s++;
        }
        while (*s == ' ')
            s++;
    }
}

static void
row_parse_types(struct isa_row *row)
{
    const char *s = row->types;

    while (*s && row->n_types < ISA_MAX_TYPES) {
        uint64_t set = 0;
        while (*s && *s != ' ') {
            size_t len = strcspn(s, " |");
            set |= 1ull << word_find(s, len);
            s += len;
            if (*s == '|')
                s++;
        }
        row->type[row->n_types++] = set;
        while (*s == ' ')
            s++;
    }
}

static void
table_parse(void)
{
    uint16_t last[PTX_W_COUNT] = {0};

    for (size_t i = 0; i < N_ROWS; i++) {
        row_parse_mods(&rows[i]);
        row_parse_types(&rows[i]);
        if (last[rows[i].op])
            next_row[last[rows[i].op] - 1] = (uint16_t)(i + 1);
        else
            first_row[rows[i].op] = (uint16_t)(i + 1);
        last[rows[i].op] = (uint16_t)(i + 1);
    }
}

/* The group that takes modifier @w and is not taken yet, or -1. */
static int
row_take(const struct isa_row *row, unsigned w, uint32_t taken)
{
    int mem = -1;

    for (unsigned i = 0; i < row->n_mod; i++) {
        unsigned g = row->group[i] & ~(unsigned)GROUP_OPTIONAL;
        if (row->mod[i] == ANY_MEM && is_memory_word(w))
            mem = (int)g;
        else if (!(taken >> g & 1) &&
                 (row->mod[i] == w || (row->mod[i] == ANY_M64 && PTX_W_m64n8k8 <= w &&
                                       w <= PTX_W_m64n256k256)))
            return (int)g;
    }
    return mem;
}

static bool
row_fits(const struct isa_row *row, const struct ptx_insn *insn)
{
    uint32_t taken = 0;
    unsigned n_types = 0;

    for (unsigned i = 0; i < insn->n_mods; i++) {
        unsigned w = insn->mods[i];
        int g;
        if (ptx_word_is_type(w)) {
            if (n_types >= row->n_types || !(row->type[n_types] >> w & 1))
                return false;
            n_types++;
            continue;
        }
        g = row_take(row, w, taken);
        if (g < 0)
            return false;
        taken |= 1u << g;
    }
    if (n_types != row->n_types)
        return false;
    for (unsigned i = 0; i < row->n_mod; i++)
        if (!(row->group[i] & GROUP_OPTIONAL) && !(taken >> row->group[i] & 1))
            return false;
    return true;
}

/* Whether the row takes as many operands; lowering functions look themselves. */
static bool
row_counts(const struct isa_row *row, const struct ptx_insn *insn)
{
    const char *sig;
    int n = 1;

    if (row->kind == ISA_DO)
        return true;
    sig = row->kind == ISA_FN || row->kind == ISA_FNH ? sg_fns[row->code].sig + 1
                                                      : sg_op_sig(row->code) + 2;
    for (int k = 0; k < 3; k++)
        n += sig[k] != '-';
    return n == insn->n_opds;
}

const struct isa_row *
isa_find(const struct ptx_insn *insn)
{
    const struct isa_row *almost = NULL;

    pthread_once(&once, table_parse);
    if (insn->op >= PTX_W_COUNT)
        return NULL;
    for (unsigned i = first_row[insn->op]; i; i = next_row[i - 1]) {
        if (!row_fits(&rows[i - 1], insn))
            continue;
        if (row_counts(&rows[i - 1], insn))
            return &rows[i - 1];
        almost = almost ? almost : &rows[i - 1];
    }
    return almost;
}

static const char *
word_text(unsigned id)
{
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (words[i].id == id)
            return words[i].text;
    return "?";
}

int
sg_isa_print(int fd)
{
    unsigned ops = 0;

    pthread_once(&once, table_parse);
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct isa_row *r = &rows[i];
        if (dprintf(fd, "%-12s %-44s %s\n", word_text(r->op), r->mods, r->types) < 0)
            return -errno;
    }
    for (unsigned op = 0; op < PTX_W_COUNT; op++)
        ops += first_row[op] != 0;
    return dprintf(fd, "opcodes %u, rows %zu\n", ops, N_ROWS) < 0 ? -errno : 0;
}
