/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Liveness and register slots.
 *
 * Virtual registers that live in one basic block need no data flow; for the others live
 * sets are computed over the blocks, and every register gets one interval of operation
 * numbers.  A linear scan gives out slots per class.  A write under a guard leaves
 * other lanes' values alone, so it does not end a live range, except for temporaries.
 */
#include "gp_err.h"
#include "sg_ir.h"
#include "sg_unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[] = {
#define OP(name, sig) #name,
#include "sg_insns.def"
#undef OP
};
static const char *const op_sigs[] = {
#define OP(name, sig) sig,
#include "sg_insns.def"
#undef OP
};

const char *
sg_op_name(unsigned code)
{
    return code < SG_N_OPS ? op_names[code] : "?";
}

const char *
sg_op_sig(unsigned code)
{
    return code < SG_N_OPS ? op_sigs[code] : "------";
}

void
sg_ir_fini(struct sg_ir_func *func)
{
    for (uint32_t i = 0; i < func->n_code; i++)
        free(func->code[i].list);
    free(func->code);
    free(func->vregs);
    free(func->consts);
    free(func->const_table.slots);
    memset(func, 0, sizeof(*func));
}

/* ------------------------------------------------------------------ liveness */

struct block {
    uint32_t start, end;
    int32_t succ[2];
    bool all_targets; /* BRX: any label */
};

struct alloc {
    struct sg_ir_func *f;
    struct block *blocks;
    uint32_t n_blocks;
    uint32_t *label_block;
    int32_t *global; /* vreg -> bit, -1 local to a block */
    uint32_t n_global, words;
    uint64_t *in, *out, *use, *def;
    uint32_t *first, *last; /* intervals, first > last: never */
};

void
sg_ir_operands(const struct sg_ir *ir, struct sg_operands *o)
{
    const int32_t src[4] = {ir->a, ir->b, ir->c, ir->f};

    o->n_reads = o->n_writes = 0;
    for (int k = 0; k < 4; k++)
        if (src[k] != SG_NOREG)
            o->reads[o->n_reads++] = src[k];
    if (ir->guard != SG_NOREG)
        o->reads[o->n_reads++] = ir->guard;
    if (ir->d != SG_NOREG)
        o->writes[o->n_writes++] = ir->d;
    if (ir->e != SG_NOREG)
        o->writes[o->n_writes++] = ir->e;
    for (unsigned k = 0; k < ir->n_list; k++) {
        if (k < ir->n_list_dst)
            o->writes[o->n_writes++] = ir->list[k];
        else
            o->reads[o->n_reads++] = ir->list[k];
    }
    o->kills = ir->guard == SG_NOREG;
}

static bool
lives_everywhere(const struct sg_vreg *reg)
{
    return reg->konst >= 0 || reg->kept;
}

static bool
ends_block(unsigned code)
{
    return code == SG_OP_BRA || code == SG_OP_BRC || code == SG_OP_BRX ||
           code == SG_OP_RET || code == SG_OP_EXIT || code == SG_OP_TRAP;
}

static int
find_blocks(struct alloc *al)
{
    struct sg_ir_func *f = al->f;
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->n_code; i++)
        n += i == 0 || f->code[i].code == SG_OP_JOIN || ends_block(f->code[i - 1].code);
    al->blocks = calloc(n + 1, sizeof(*al->blocks));
    al->label_block = malloc((f->n_labels + 1u) * sizeof(uint32_t));
    if (!al->blocks || !al->label_block)
        return -ENOMEM;
    memset(al->label_block, 0xff, (f->n_labels + 1u) * sizeof(uint32_t));
    for (uint32_t i = 0; i < f->n_code; i++) {
        if (i == 0 || f->code[i].code == SG_OP_JOIN ||
            ends_block(f->code[i - 1].code)) {
            if (al->n_blocks)
                al->blocks[al->n_blocks - 1].end = i;
            al->blocks[al->n_blocks++].start = i;
        }
        if (f->code[i].code == SG_OP_JOIN)
            al->label_block[f->code[i].x] = al->n_blocks - 1;
    }
    if (al->n_blocks)
        al->blocks[al->n_blocks - 1].end = f->n_code;
    for (uint32_t b = 0; b < al->n_blocks; b++) {
        struct block *blk = &al->blocks[b];
        const struct sg_ir *last = &f->code[blk->end - 1];
        int32_t next = b + 1 < al->n_blocks ? (int32_t)b + 1 : -1;
        blk->succ[0] = blk->succ[1] = -1;
        if (last->code == SG_OP_BRX)
            blk->all_targets = true;
        else if (last->code == SG_OP_BRA || last->code == SG_OP_BRC)
            blk->succ[0] = (int32_t)al->label_block[last->x];
        if (last->code != SG_OP_BRA && last->code != SG_OP_BRX &&
            last->code != SG_OP_RET && last->code != SG_OP_EXIT)
            blk->succ[1] = next;
    }
    return 0;
}

/* Registers that more than one block mentions, or that are read before written in the
 * only one, take part in the data flow. */
static int
find_globals(struct alloc *al)
{
    struct sg_ir_func *f = al->f;
    CLEANUP_FREE uint32_t *seen = malloc((f->n_vregs + 1u) * sizeof(*seen));
    CLEANUP_FREE uint8_t *written = calloc(f->n_vregs + 1u, 1);

    al->global = malloc((f->n_vregs + 1u) * sizeof(*al->global));
    if (!seen || !written || !al->global)
        return -ENOMEM;
    memset(seen, 0xff, (f->n_vregs + 1u) * sizeof(*seen));
    memset(al->global, 0xff, (f->n_vregs + 1u) * sizeof(*al->global));
    for (uint32_t b = 0; b < al->n_blocks; b++) {
        for (uint32_t i = al->blocks[b].start; i < al->blocks[b].end; i++) {
            struct sg_operands o;
            sg_ir_operands(&f->code[i], &o);
            for (unsigned k = 0; k < o.n_reads + o.n_writes; k++) {
                bool read = k < o.n_reads;
                int32_t v = read ? o.reads[k] : o.writes[k - o.n_reads];
                bool partial =
                    read ? !written[v] : !o.kills && !f->vregs[v].temp && !written[v];
                if (al->global[v] < 0 && !lives_everywhere(&f->vregs[v]) &&
                    ((seen[v] != UINT32_MAX && seen[v] != b) || partial))
                    al->global[v] = (int32_t)al->n_global++;
                seen[v] = b;
                if (!read)
                    written[v] = 1;
            }
        }
    }
    al->words = (al->n_global + 63) / 64;
    return 0;
}

static uint64_t *
set_of(uint64_t *base, const struct alloc *al, uint32_t b)
{
    return base + (size_t)b * al->words;
}

static void
block_sets(struct alloc *al, uint32_t b)
{
    uint64_t *use = set_of(al->use, al, b), *def = set_of(al->def, al, b);

    for (uint32_t i = al->blocks[b].start; i < al->blocks[b].end; i++) {
        struct sg_operands o;
        sg_ir_operands(&al->f->code[i], &o);
        for (unsigned k = 0; k < o.n_reads; k++) {
            int32_t g = al->global[o.reads[k]];
            if (g >= 0 && !(def[g / 64] >> (g % 64) & 1))
                use[g / 64] |= 1ull << (g % 64);
        }
        for (unsigned k = 0; k < o.n_writes; k++) {
            int32_t g = al->global[o.writes[k]];
            if (g < 0)
                continue;
            if (o.kills || al->f->vregs[o.writes[k]].temp)
                def[g / 64] |= 1ull << (g % 64);
            else if (!(def[g / 64] >> (g % 64) & 1))
                use[g / 64] |= 1ull << (g % 64);
        }
    }
}

static bool
flow_block(struct alloc *al, uint32_t b, const uint64_t *brx_in)
{
    uint64_t *in = set_of(al->in, al, b), *out = set_of(al->out, al, b);
    const uint64_t *use = set_of(al->use, al, b), *def = set_of(al->def, al, b);
    const struct block *blk = &al->blocks[b];
    bool changed = false;

    for (uint32_t w = 0; w < al->words; w++) {
        uint64_t o = blk->all_targets ? brx_in[w] : 0, n;
        for (int s = 0; s < 2; s++)
            if (blk->succ[s] >= 0)
                o |= set_of(al->in, al, (uint32_t)blk->succ[s])[w];
        out[w] = o;
        n = use[w] | (o & ~def[w]);
        changed |= n != in[w];
        in[w] = n;
    }
    return changed;
}

static int
flow(struct alloc *al)
{
    size_t total = (size_t)al->n_blocks * al->words;
    CLEANUP_FREE uint64_t *brx_in = NULL;
    bool changed = true;

    if (total > (512u << 20) / 8 / 4) /* half a GiB of live sets: no real function */
        return -E2BIG;
    al->in = calloc(total + 1, 8);
    al->out = calloc(total + 1, 8);
    al->use = calloc(total + 1, 8);
    al->def = calloc(total + 1, 8);
    brx_in = calloc(al->words + 1u, 8);
    if (!al->in || !al->out || !al->use || !al->def || !brx_in)
        return -ENOMEM;
    for (uint32_t b = 0; b < al->n_blocks; b++)
        block_sets(al, b);
    while (changed) {
        changed = false;
        /* a table jump may reach any label */
        for (uint32_t l = 0; l < al->f->n_labels; l++)
            for (uint32_t w = 0; w < al->words && al->label_block[l] != UINT32_MAX; w++)
                brx_in[w] |= set_of(al->in, al, al->label_block[l])[w];
        for (uint32_t b = al->n_blocks; b-- > 0;)
            changed |= flow_block(al, b, brx_in);
    }
    return 0;
}

static void
touch(struct alloc *al, int32_t v, uint32_t at)
{
    al->first[v] = gp_min(al->first[v], at);
    al->last[v] = gp_max(al->last[v], at);
}

static int
intervals(struct alloc *al)
{
    struct sg_ir_func *f = al->f;
    CLEANUP_FREE int32_t *vreg_of = malloc((al->n_global + 1u) * sizeof(*vreg_of));

    al->first = malloc((f->n_vregs + 1u) * 4);
    al->last = calloc(f->n_vregs + 1u, 4);
    if (!al->first || !al->last || !vreg_of)
        return -ENOMEM;
    memset(al->first, 0xff, (f->n_vregs + 1u) * 4);
    for (uint32_t v = 0; v < f->n_vregs; v++)
        if (al->global[v] >= 0)
            vreg_of[al->global[v]] = (int32_t)v;
    for (uint32_t i = 0; i < f->n_code; i++) {
        struct sg_operands o;
        sg_ir_operands(&f->code[i], &o);
        for (unsigned k = 0; k < o.n_reads; k++)
            touch(al, o.reads[k], i);
        for (unsigned k = 0; k < o.n_writes; k++)
            touch(al, o.writes[k], i);
    }
    for (uint32_t b = 0; b < al->n_blocks; b++) {
        const uint64_t *in = set_of(al->in, al, b), *out = set_of(al->out, al, b);
        for (uint32_t g = 0; g < al->n_global; g++) {
            if (in[g / 64] >> (g % 64) & 1)
                touch(al, vreg_of[g], al->blocks[b].start);
            if (out[g / 64] >> (g % 64) & 1)
                touch(al, vreg_of[g], al->blocks[b].end - 1);
        }
    }
    return 0;
}

/* --------------------------------------------------------------- linear scan */

struct pool {
    int32_t *free;
    uint32_t n_free, used;
};

struct event {
    uint32_t at;
    int32_t vreg;
};

static int
event_order(const void *a, const void *b)
{
    const struct event *ea = a, *eb = b;

    return ea->at < eb->at ? -1 : ea->at > eb->at ? 1 : ea->vreg - eb->vreg;
}

/* Results of these must not share a slot with a source that dies there: they write
 * one result before they have read everything. */
static bool
writes_early(unsigned code)
{
    return code == SG_OP_SHFL || code == SG_OP_MATCH_W || code == SG_OP_MATCH_D ||
           code == SG_OP_ELECT;
}

static bool
loads_param(const struct sg_ir *ir)
{
    return ir->code >= SG_OP_LDP_U8 && ir->code <= SG_OP_LDP_64 && ir->e == SG_NOREG;
}

/* By register: how many registers of 32 bits a card gives it while it is live.
 * Predicates have a file of their own there; constants, parameters and what depends on
 * them alone are in the constant bank or in registers that the whole warp shares. */
static void
card_regs(const struct sg_ir_func *f, uint8_t *regs)
{
    static const uint8_t by_class[] = {1, 2, 0};
    struct sg_operands o;

    memset(regs, 0, f->n_vregs);
    for (uint32_t i = 0; i < f->n_code; i++) {
        sg_ir_operands(&f->code[i], &o);
        for (unsigned k = 0; k < o.n_writes && !loads_param(&f->code[i]); k++) {
            const struct sg_vreg *reg = &f->vregs[o.writes[k]];
            regs[o.writes[k]] = reg->uniform ? 0 : by_class[reg->cls];
        }
    }
}

static int
scan(struct alloc *al, struct sg_frame_size *ret_size)
{
    struct sg_ir_func *f = al->f;
    static const uint32_t slot_bytes[] = {SG_SLOT_W, SG_SLOT_D, SG_SLOT_P};
    CLEANUP_FREE struct event *starts = malloc((f->n_vregs + 1u) * sizeof(*starts));
    CLEANUP_FREE struct event *ends = malloc((f->n_vregs + 1u) * sizeof(*ends));
    CLEANUP_FREE int32_t *space =
        malloc((f->n_vregs + 1u) * sizeof(*space) * SG_N_CLASSES);
    CLEANUP_FREE uint8_t *regs = malloc(f->n_vregs + 1u);
    struct pool pools[SG_N_CLASSES];
    uint32_t n = 0, e = 0, live = 0;

    if (!starts || !ends || !space || !regs)
        return -ENOMEM;
    card_regs(f, regs);
    for (int c = 0; c < SG_N_CLASSES; c++)
        pools[c] = (struct pool){space + (size_t)c * (f->n_vregs + 1u), 0, 0};
    for (uint32_t v = 0; v < f->n_vregs; v++) {
        struct sg_vreg *reg = &f->vregs[v];
        if (lives_everywhere(reg)) {
            if (al->first[v] <= al->last[v]) {
                reg->slot = (int32_t)pools[reg->cls].used++;
                live += regs[v];
            }
            continue;
        }
        if (al->first[v] > al->last[v])
            continue;
        starts[n] = (struct event){al->first[v], (int32_t)v};
        ends[n++] = (struct event){
            al->last[v] + (writes_early(f->code[al->last[v]].code) ? 1 : 0),
            (int32_t)v};
    }
    qsort(starts, n, sizeof(*starts), event_order);
    qsort(ends, n, sizeof(*ends), event_order);
    f->n_regs = live;
    for (uint32_t i = 0; i < n; i++) {
        struct sg_vreg *reg = &f->vregs[starts[i].vreg];
        struct pool *pool = &pools[reg->cls];
        for (; e < n && ends[e].at <= starts[i].at; e++) {
            struct sg_vreg *old = &f->vregs[ends[e].vreg];
            /* never started, or lives in this very operation alone: keep it */
            if (old->slot < 0 || al->first[ends[e].vreg] == starts[i].at)
                break;
            pools[old->cls].free[pools[old->cls].n_free++] = old->slot;
            live -= regs[ends[e].vreg];
        }
        live += regs[starts[i].vreg];
        f->n_regs = gp_max(f->n_regs, live);
        reg->slot = pool->n_free ? pool->free[--pool->n_free] : (int32_t)pool->used++;
    }
    for (int c = 0; c < SG_N_CLASSES; c++) {
        uint64_t bytes = (uint64_t)pools[c].used * slot_bytes[c];
        if (bytes > SG_MAX_FRAME_BYTES)
            return -E2BIG;
        ret_size->bytes[c] = (uint32_t)GP_ALIGN_UP(bytes, 64u);
    }
    return 0;
}

int
sg_ir_allocate(struct sg_ir_func *func, struct sg_frame_size *ret_size,
               struct gp_err *err)
{
    struct alloc al = {.f = func};
    int r;

    r = find_blocks(&al);
    if (r == 0)
        r = find_globals(&al);
    if (r == 0)
        r = flow(&al);
    if (r == 0)
        r = intervals(&al);
    if (r == 0)
        r = scan(&al, ret_size);
    free(al.blocks);
    free(al.label_block);
    free(al.global);
    free(al.in);
    free(al.out);
    free(al.use);
    free(al.def);
    free(al.first);
    free(al.last);
    return r < 0 ? gp_err_set(err, r, "register allocation failed") : 0;
}
