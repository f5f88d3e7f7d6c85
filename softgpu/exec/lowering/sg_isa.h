/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction table: which PTX forms are carried and what each becomes.
 *
 * Rows come from ptx_isa.def, parsed once per process; lookups from any thread.
 */
#ifndef SG_ISA_H
#define SG_ISA_H

#include "exec_scalar.h"
#include "sg_insn.h"

#include <stdbool.h>
#include <stdint.h>

struct ptx_insn;
struct lower;

enum isa_kind {
    ISA_ALU, /* one operation, sources in order */
    ISA_A16, /* the same on 16 bits: result masked */
    ISA_S16, /* the same, sources sign-extended */
    ISA_FN,  /* one scalar function per lane */
    ISA_FNH, /* the same on halves: .ftz and .sat around it */
    ISA_DO,  /* a lowering function */
};

#define ISA_MAX_MODS 40
#define ISA_MAX_TYPES 5

struct isa_row {
    uint16_t op; /* PTX_W_* */
    uint8_t kind;
    const char *mods, *types; /* as written in the table */
    uint16_t code;            /* enum sg_opcode or enum sg_fn_id */
    void (*lower)(struct lower *l, const struct ptx_insn *insn);
    /* parsed: groups of alternatives, in one array, ends marked */
    uint16_t mod[ISA_MAX_MODS];
    uint8_t group[ISA_MAX_MODS]; /* which group; bit 7: optional */
    uint8_t n_mod, n_groups;
    uint64_t type[ISA_MAX_TYPES]; /* sets of type words */
    uint8_t n_types;
};

/* The first row that fits and takes as many operands, else the first that fits; or
 * NULL. */
const struct isa_row *isa_find(const struct ptx_insn *insn);

#endif
