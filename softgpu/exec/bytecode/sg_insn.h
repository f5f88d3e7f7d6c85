/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytecode: one instruction, its opcode, and what its fields may hold.
 *
 * This is what lowering writes and the interpreter executes.  sg_insns.def lists the
 * opcodes with the classes of their operands; the enums below are the values of the
 * fields `n`, `x` and `imm`, by opcode.  Constants and types only; any thread.
 *
 * Register classes: W has 32 lanes of 32 bits (8 and 16 bit values are zero-extended in
 * it), D has 32 lanes of 64 bits, P has 32 predicate bits.  Constants are registers
 * that a frame finds filled in.
 */
#ifndef SG_INSN_H
#define SG_INSN_H

#include <stdint.h>

enum sg_opcode {
#define OP(name, sig) SG_OP_##name,
#include "sg_insns.def"
#undef OP
    SG_N_OPS,
    SG_OP_FIRST_ALU = SG_OP_ADD_U32 /* from here on: results of the operands alone */
};

enum sg_class { SG_W, SG_D, SG_P, SG_N_CLASSES };

/* What a constant is made of when an instance runs it. */
enum sg_const_kind {
    SG_CONST_VALUE,      /* value */
    SG_CONST_GLOBAL,     /* address of global ref, plus value */
    SG_CONST_TEXREF,     /* handle bound to reference ref */
    SG_CONST_DYN_SHARED, /* value plus where dynamic shared memory starts; the unit
                            resolves it to SG_CONST_VALUE when it is complete */
};

struct sg_const {
    uint8_t cls;  /* enum sg_class, W or D */
    uint8_t kind; /* enum sg_const_kind */
    uint32_t ref;
    uint32_t off; /* byte offset of its slot in the frame, after allocation */
    uint64_t value;
};

/* One operation as it is executed.  Offsets are bytes from the frame's base of the
 * operand's class; label operands are indexes into the unit's code. */
struct sg_insn {
    uint16_t code;
    uint16_t n;
    uint32_t d, e, a, b, c, f;
    uint32_t x;
    int64_t imm;
};

#define SG_INDEX_SIGNED 0x80000000u

#define SG_LANES 32
#define SG_SLOT_W (SG_LANES * 4)
#define SG_SLOT_D (SG_LANES * 8)
#define SG_SLOT_P 4

/* Sizes of a frame in bytes, by class. */
struct sg_frame_size {
    uint32_t bytes[SG_N_CLASSES];
};

/* A scalar operation, one lane: operands and result as raw bits. */
typedef uint64_t sg_fn(uint64_t a, uint64_t b, uint64_t c);

/* FN operations: x holds the classes of d, a, b, c, two bits each. */
#define SG_FN_CLASSES(d, a, b, c) ((d) | (a) << 2 | (b) << 4 | (c) << 6)

/* Absent operand. */
#define SG_OFF_NONE UINT32_MAX

#define SG_N_BARRIERS 16
/* Shared memory of the members of a cluster lies 16 MiB apart in the shared window. */
#define SG_CLUSTER_SHIFT 24
/* Cached ranges of a CTA: one per load or store, dealt out in turn, and two for what
 * has no place of its own. */
#define SG_TLB_SITES 15
#define SG_TLB_ANY 15
#define SG_TLB_TEX 16
#define SG_N_TLB 17
#define SG_N_SHAPES 8 /* of addresses that are launch constants */

enum sg_mem_space {
    SG_MEM_GLOBAL,
    SG_MEM_SHARED,
    SG_MEM_LOCAL,
    SG_MEM_GENERIC,
    SG_MEM_CONST,
    SG_MEM_PARAM,
    SG_MEM_CLUSTER, /* isspacep alone: shared memory of any member */
};
enum sg_bar {
    SG_BAR_SYNC,
    SG_BAR_ARRIVE,
    SG_BAR_RED_AND,
    SG_BAR_RED_OR,
    SG_BAR_RED_POPC
};

enum sg_sreg {
    SG_SREG_TID_X,
    SG_SREG_TID_Y,
    SG_SREG_TID_Z,
    SG_SREG_NTID_X,
    SG_SREG_NTID_Y,
    SG_SREG_NTID_Z,
    SG_SREG_CTAID_X,
    SG_SREG_CTAID_Y,
    SG_SREG_CTAID_Z,
    SG_SREG_NCTAID_X,
    SG_SREG_NCTAID_Y,
    SG_SREG_NCTAID_Z,
    SG_SREG_LANEID,
    SG_SREG_WARPID,
    SG_SREG_NWARPID,
    SG_SREG_SMID,
    SG_SREG_NSMID,
    SG_SREG_GRIDID,
    SG_SREG_LANEMASK_EQ,
    SG_SREG_LANEMASK_LE,
    SG_SREG_LANEMASK_LT,
    SG_SREG_LANEMASK_GE,
    SG_SREG_LANEMASK_GT,
    SG_SREG_CLOCK,
    SG_SREG_CLOCK_HI,
    SG_SREG_CLOCK64,
    SG_SREG_GLOBALTIMER,
    SG_SREG_GLOBALTIMER_LO,
    SG_SREG_GLOBALTIMER_HI,
    SG_SREG_TOTAL_SMEM,
    SG_SREG_DYNAMIC_SMEM,
    SG_SREG_ENVREG1,
    SG_SREG_ENVREG2,
    SG_SREG_RESERVED,
    SG_SREG_RESERVED_1,
    SG_SREG_RESERVED_END,
    SG_SREG_RESERVED_CAP,
    SG_SREG_CLUSTERID_X,
    SG_SREG_NCLUSTERID_X = SG_SREG_CLUSTERID_X + 3,
    SG_SREG_CLUSTER_CTAID_X = SG_SREG_NCLUSTERID_X + 3,
    SG_SREG_CLUSTER_NCTAID_X = SG_SREG_CLUSTER_CTAID_X + 3,
    SG_SREG_CLUSTER_CTARANK = SG_SREG_CLUSTER_NCTAID_X + 3,
    SG_SREG_CLUSTER_NCTARANK,
    SG_SREG_IS_CLUSTER,
    SG_SREG_ZERO,
    SG_SREG_ONE,
};

/* Operation CHECK, in programs that are checked: n.  It looks at the operation behind
 * it, or at the one before it. */
#define SG_WATCH_AFTER 1u
#define SG_WATCH_STRONG 2u  /* volatile, relaxed, acquire, release: no data race */
#define SG_WATCH_ALIGNED 4u /* a barrier that all lanes of a warp reach together */

/* Operation ATOM_*: x = space | mask of address bits that must be zero. */
#define SG_ATOM_ALIGN_SHIFT 8

enum sg_atom {
    SG_ATOM_ADD,
    SG_ATOM_MIN_U,
    SG_ATOM_MIN_S,
    SG_ATOM_MAX_U,
    SG_ATOM_MAX_S,
    SG_ATOM_INC,
    SG_ATOM_DEC,
    SG_ATOM_AND,
    SG_ATOM_OR,
    SG_ATOM_XOR,
    SG_ATOM_EXCH,
    SG_ATOM_CAS,
    SG_ATOM_ADD_F32,
    SG_ATOM_ADD_F32_FTZ,
    SG_ATOM_ADD_F64,
    SG_ATOM_ADD_F64_RAW,
    SG_ATOM_ADD_F16,
    SG_ATOM_ADD_F16X2,
    SG_ATOM_ADD_BF16,
    SG_ATOM_ADD_BF16X2,
    SG_ATOM_MIN_F16,
    SG_ATOM_MAX_F16,
    SG_ATOM_MIN_F16X2,
    SG_ATOM_MAX_F16X2,
    SG_ATOM_MIN_BF16,
    SG_ATOM_MAX_BF16,
    SG_ATOM_MIN_BF16X2,
    SG_ATOM_MAX_BF16X2,
};

/* REDUX over f32: n has these bits, else it is an enum sg_atom. */
#define SG_REDUX_FLOAT 0x100u
#define SG_REDUX_MAX 0x200u
#define SG_REDUX_NAN 0x400u
#define SG_REDUX_ABS 0x800u

enum sg_mbar {
    SG_MBAR_INIT,
    SG_MBAR_INVAL,
    SG_MBAR_ARRIVE,
    SG_MBAR_DROP,
    SG_MBAR_EXPECT_TX,
    SG_MBAR_COMPLETE_TX,
    SG_MBAR_WAIT_STATE,
    SG_MBAR_WAIT_PARITY,
};
enum sg_stack { SG_STACK_SAVE, SG_STACK_RESTORE, SG_STACK_ALLOCA };
enum sg_shfl { SG_SHFL_UP, SG_SHFL_DOWN, SG_SHFL_BFLY, SG_SHFL_IDX };
enum sg_vote { SG_VOTE_ALL, SG_VOTE_ANY, SG_VOTE_UNI };

#define SG_MBAR_PHASE (1ull << 63) /* of an mbarrier's word: the phase's parity */

/* BULK, BULK_TENSOR: n; a reduction's imm: enum sg_atom | size << 8, of tensors the
 * enum sg_bulk_reduce; BULK_TENSOR's x: rank | enum sg_bulk_mode << 4 */
#define SG_BULK_TO_GLOBAL 1u
#define SG_BULK_FROM_SHARED 2u
#define SG_BULK_MBAR 4u
#define SG_BULK_MULTICAST 8u
#define SG_BULK_ZERO 16u /* st.bulk: zeros, from nowhere */
#define SG_BULK_REDUCE 32u
#define SG_BULK_BYTES 64u /* only the bytes of each 16 that the mask says */

enum sg_bulk_mode { SG_BULK_TILE, SG_BULK_IM2COL, SG_BULK_ROWS };
enum sg_bulk_reduce {
    SG_BULK_ADD,
    SG_BULK_MIN,
    SG_BULK_MAX,
    SG_BULK_INC,
    SG_BULK_DEC,
    SG_BULK_AND,
    SG_BULK_OR,
    SG_BULK_XOR,
};

/* The list of BULK and BULK_TENSOR, 64-bit registers: where to, where from, how many
 * bytes, the mbarrier, a mask of members or of bytes.  BULK_TENSOR has the map in place
 * of the side in global memory, and coordinates and the offsets of im2col behind. */
enum {
    SG_BULK_ARG_TO,
    SG_BULK_ARG_FROM,
    SG_BULK_ARG_BYTES,
    SG_BULK_ARG_MBAR,
    SG_BULK_ARG_MASK,
    SG_BULK_ARGS,
    SG_BULK_COORDS = SG_BULK_ARGS,
    SG_BULK_OFFSETS = SG_BULK_COORDS + 5,
    SG_BULK_LIST = SG_BULK_OFFSETS + 3,
};

#endif
