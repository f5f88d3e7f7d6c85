/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random kernel: a tree of statements with defined results, the same for the same
 * seed.
 *
 * Threads touch memory of their own, memory that nobody writes, cells that all change
 * by one operation that commutes, and each other's through barriers, shuffles and
 * votes; so no order of threads changes a result.  Made by rk_kernel_new(), printed as
 * PTX by rk_print(), evaluated by rk_eval(); both leave out the statements that are
 * off.  One thread at a time.
 */
#ifndef RK_KERNEL_H
#define RK_KERNEL_H

#include "rk_ops.h"

#include <stdio.h>

enum rk_class { RK_W, RK_D, RK_H, RK_P, RK_N_CLASSES };
#define RK_MAX_REGS 10
extern const unsigned rk_n_regs[RK_N_CLASSES];
enum rk_class rk_class_of(char letter);

enum rk_kind {
    RK_ALU,
    RK_LOAD,     /* mem, regs[] */
    RK_STORE,    /* mem, regs[] */
    RK_GATHER,   /* regs[0] = table[src[0] & 63]; mode: where the table is */
    RK_ATOM,     /* on mem, a column of the thread's own; regs[0] = what was there */
    RK_RED,      /* on cell n of all threads; mode: in shared memory */
    RK_WARP,     /* see enum rk_warp */
    RK_EXCHANGE, /* regs[0] = src[0] of the n-th thread after this one, modulo */
    RK_BAR_RED,  /* regs[0] = how many, all or any of predicate src[0]; mode */
    RK_IF,       /* sub[0] if the guard holds, else sub[1] */
    RK_LOOP,     /* sub[0], src[0] & 3 times; or n times where n is not 0 */
    RK_SWITCH,   /* sub[src[0] & 3] */
    RK_CALL,     /* regs[0] = function n of src[0] and src[1] */
    RK_RET,      /* the guard's threads end */
};

enum rk_warp {
    RK_SHFL_BFLY, /* from lane ^ n, or its own value where that is not there */
    RK_SHFL_LAST, /* from the last lane of those here */
    RK_SHFL_UP,   /* the others: only where all 32 lanes are */
    RK_SHFL_DOWN,
    RK_SHFL_IDX,
    RK_VOTE_ALL,
    RK_VOTE_ANY,
    RK_VOTE_UNI,
    RK_BALLOT,
    RK_MATCH_ANY,
    RK_MATCH_ANY_64,
    RK_MATCH_ALL,
    RK_REDUX, /* n: which */
    RK_N_WARP,
};

/* Spaces and regions of a thread's own memory (rk_mem_offset()). */
enum rk_space { RK_GLOBAL, RK_SHARED, RK_LOCAL };
enum rk_region { RK_COL4, RK_COL8, RK_COL16, RK_SLOT };
#define RK_OWN_BYTES 128 /* of each thread, in global and in shared memory */
#define RK_LOCAL_BYTES 64

struct rk_mem {
    enum rk_space space;
    enum rk_region region;
    unsigned off;  /* in the slot; the column's number */
    unsigned size; /* of an element */
    unsigned n;    /* elements */
    char letter;   /* u, s, b, f */
    unsigned how;  /* the address is computed */
};

struct rk_src {
    bool constant;
    enum rk_class class;
    uint8_t reg;
    uint64_t value;
};

struct rk_stmt;
struct rk_list {
    struct rk_stmt *v;
    unsigned n;
};

#define RK_MAX_WAYS 4

struct rk_stmt {
    enum rk_kind kind;
    bool off;
    int guard; /* a predicate, or -1 */
    bool guard_not;
    const struct rk_op *op;
    enum rk_class class; /* of regs[] */
    uint8_t regs[4];
    struct rk_src src[RK_MAX_SOURCES];
    struct rk_mem mem;
    unsigned mode, n, segment;
    struct rk_list sub[RK_MAX_WAYS];
};

#define RK_TABLE 64
#define RK_FUNCTIONS 2
#define RK_CELLS 9
#define RK_IN_WORDS 16
#define RK_OUT_WORDS 64
/* Words of a thread's row of results. */
#define RK_OUT_OWN 24   /* its shared memory */
#define RK_OUT_LOCAL 40 /* its local memory */
#define RK_OUT_CELLS 48 /* the cells of shared memory */

struct rk_kernel {
    uint64_t seed;
    unsigned grid, block;
    uint32_t param_word;
    uint64_t param_long;
    uint32_t table[RK_TABLE];
    struct rk_list body, functions[RK_FUNCTIONS];
};

/* What all threads change, by one operation a cell. */
struct rk_cell {
    const char *op, *type;
    unsigned bits;
    uint64_t start;
};
extern const struct rk_cell rk_cells[RK_CELLS];

/* Memory of a run: what goes in, what comes out. */
struct rk_memory {
    size_t n_in, n_own, n_out;
    uint64_t *in;    /* RK_IN_WORDS a thread */
    uint64_t *table; /* RK_TABLE */
    uint8_t *own;    /* RK_OWN_BYTES a thread */
    uint64_t *out;   /* RK_OUT_WORDS a thread */
    uint64_t *cells; /* RK_CELLS */
};

struct rk_kernel *rk_kernel_new(uint64_t seed);
void rk_kernel_free(struct rk_kernel *k); /* NULL is a no-op */
/* Turn off what the compiler of a card gets wrong, for comparisons with a card. */
void rk_kernel_for_card(struct rk_kernel *k);

/* Fills the memory that a kernel starts with; the caller has room for the largest. */
#define RK_MAX_THREADS 384
void rk_memory_fill(const struct rk_kernel *k, struct rk_memory *m);
/* Where a thread's access lies in its space, of @threads threads. */
size_t rk_mem_offset(const struct rk_mem *mem, unsigned thread, unsigned threads);
/* The class of a register that an element fits, and its type's text. */
void rk_mem_type(const struct rk_mem *mem, char text[8]);

/* The PTX text; the caller frees it. */
char *rk_print(const struct rk_kernel *k);
/* The reference: what the kernel leaves in @m. */
void rk_eval(const struct rk_kernel *k, struct rk_memory *m);

/* Whether any statement of @list that is on is of this kind (and space or mode, if not
 * negative), at any depth. */
bool rk_list_has(const struct rk_list *list, enum rk_kind kind, int which);
bool rk_kernel_has_shared(const struct rk_kernel *k);

#endif
