/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small matrices between shared memory and registers: ldmatrix, stmatrix, movmatrix.
 *
 * Memory has their rows, or their columns if they are transposed, 16 bytes each, at
 * addresses that as many lanes bring.
 */
#include "exec_matrix.h"
#include "sg_cta.h"

#include <string.h>

/* Element (row, col) of the 8x8 matrix that lane holds at position j of its word. */
static void
m8n8_place(bool trans, unsigned lane, unsigned j, unsigned *ret_row, unsigned *ret_col)
{
    unsigned row = lane / 4, col = lane % 4 * 2 + j;

    *ret_row = trans ? col : row;
    *ret_col = trans ? row : col;
}

/* A row of 16 bytes, of which lane @i brings the address; most are in @w. */
static void *
row_at(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
       const struct sg_window *w, unsigned i, enum sg_access access)
{
    const uint64_t addr = sg_reg_d(warp, op->a)[i] + (uint64_t)op->imm;
    void *p = sg_window_at(w, i, addr, 16, 15);

    return likely(p) ? p : sg_mem_resolve(cta, warp, i, addr, 16, 15, op->x, access);
}

static struct sg_window
rows_window(struct sg_cta *cta, const struct sg_warp *warp, const struct sg_insn *op,
            enum sg_access access)
{
    return sg_mem_window_of(cta, warp, op->x,
                            sg_reg_d(warp, op->a)[0] + (uint64_t)op->imm, access);
}

/* One row of sixteen elements, a byte each; narrower ones stand in the low bits. */
static bool
row_read(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op, unsigned i,
         uint8_t ret[16])
{
    uint64_t addr = sg_reg_d(warp, op->a)[i] + (uint64_t)op->imm, words[2];
    unsigned bits = op->n & SG_LDM_SIX ? 6 : 4;
    const void *p = sg_mem_resolve(cta, warp, i, addr, 16, 15, op->x, SG_ACCESS_READ);

    if (!p)
        return false;
    memcpy(ret, p, 16);
    if (!(op->n & (SG_LDM_SIX | SG_LDM_FOUR)))
        return true;
    memcpy(words, p, 16);
    for (unsigned k = 0; k < 16; k++) {
        unsigned __int128 all = (unsigned __int128)words[1] << 64 | words[0];
        ret[k] = (uint8_t)(all >> (k * bits)) & (uint8_t)((1u << bits) - 1);
    }
    return true;
}

/* Matrices of bytes: a register has four columns of a row, of 16 x 16 the second one
 * those of the row eight below; transposed, memory has columns. */
static enum sg_stop
load_bytes(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op)
{
    bool square = (op->n >> SG_LDM_SHAPE_SHIFT & 3) == SG_LDM_M16N16;
    unsigned n = op->n & 0xff, rows = square ? 16 : 8, each = square ? 2 : 1;
    const uint32_t *list = cta->unit->lists + op->f;
    uint8_t data[32][16];

    for (unsigned i = 0; i < n * rows; i++)
        if (!row_read(cta, warp, op, i, data[i]))
            return SG_STOP_FAULT;
    for (unsigned r = 0; r < n * each; r++) {
        for (unsigned lane = 0; lane < SG_LANES; lane++) {
            unsigned row = lane / 4 + r % each * 8, first = r / each * rows;
            uint32_t v = 0;
            for (unsigned j = 0; j < 4; j++) {
                unsigned col = lane % 4 * 4 + j;
                v |=
                    (uint32_t)(square ? data[first + col][row] : data[first + row][col])
                    << (8 * j);
            }
            sg_reg_w(warp, list[r])[lane] = v;
        }
    }
    return SG_STOP_NONE;
}

/* 16 x 8 bytes as an accumulator has them, columns in memory. */
static enum sg_stop
store_bytes(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op)
{
    const uint32_t *list = cta->unit->lists + op->f;
    unsigned n = op->n & 0xff;
    uint8_t data[32][16];

    for (unsigned r = 0; r < n; r++)
        for (unsigned lane = 0; lane < SG_LANES; lane++)
            for (unsigned j = 0; j < 4; j++)
                data[r * 8 + lane % 4 * 2 + j % 2][lane / 4 + j / 2 * 8] =
                    (uint8_t)(sg_reg_w(warp, list[r])[lane] >> (8 * j));
    for (unsigned i = 0; i < n * 8; i++) {
        uint64_t addr = sg_reg_d(warp, op->a)[i] + (uint64_t)op->imm;
        void *p = sg_mem_resolve(cta, warp, i, addr, 16, 15, op->x, SG_ACCESS_WRITE);
        if (!p)
            return SG_STOP_FAULT;
        memcpy(p, data[i], 16);
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_ldmatrix(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
               uint32_t m)
{
    enum sg_stop stop = sg_mat_whole_warp(cta, warp, &m);
    unsigned n = op->n & 0xff;
    bool trans = op->n & SG_LDM_TRANS;
    const uint32_t *list = cta->unit->lists + op->f;
    struct sg_window w;

    if (stop != SG_STOP_NONE)
        return stop;
    if (op->n >> SG_LDM_SHAPE_SHIFT)
        return load_bytes(cta, warp, op);
    w = rows_window(cta, warp, op, SG_ACCESS_READ);
    for (unsigned k = 0; k < n; k++) {
        uint32_t *d = sg_reg_w(warp, list[k]);
        uint16_t data[8][8];
        for (unsigned i = 0; i < 8; i++) {
            const void *p = row_at(cta, warp, op, &w, k * 8 + i, SG_ACCESS_READ);
            if (!p)
                return SG_STOP_FAULT;
            memcpy(data[i], p, 16);
        }
        if (!trans) { /* a quad has a row, a lane two elements of it */
            memcpy(d, data, sizeof(data));
            continue;
        }
        for (unsigned lane = 0; lane < SG_LANES; lane++)
            d[lane] = data[lane % 4 * 2][lane / 4] |
                      (uint32_t)data[lane % 4 * 2 + 1][lane / 4] << 16;
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_stmatrix(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
               uint32_t m)
{
    enum sg_stop stop = sg_mat_whole_warp(cta, warp, &m);
    unsigned n = op->n & 0xff;
    bool trans = op->n & SG_LDM_TRANS;
    const uint32_t *list = cta->unit->lists + op->f;
    uint16_t data[4][8][8];
    struct sg_window w;

    if (stop != SG_STOP_NONE)
        return stop;
    if (op->n >> SG_LDM_SHAPE_SHIFT)
        return store_bytes(cta, warp, op);
    for (unsigned k = 0; k < n; k++) {
        for (unsigned lane = 0; lane < SG_LANES; lane++) {
            for (unsigned j = 0; j < 2; j++) {
                unsigned row, col;
                m8n8_place(trans, lane, j, &row, &col);
                data[k][row][col] =
                    (uint16_t)(sg_reg_w(warp, list[k])[lane] >> (16 * j));
            }
        }
    }
    w = rows_window(cta, warp, op, SG_ACCESS_WRITE);
    for (unsigned i = 0; i < n * 8; i++) {
        void *p = row_at(cta, warp, op, &w, i, SG_ACCESS_WRITE);
        if (!p)
            return SG_STOP_FAULT;
        memcpy(p, data[i / 8][i % 8], 16);
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_movmatrix(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                uint32_t m)
{
    enum sg_stop stop = sg_mat_whole_warp(cta, warp, &m);
    uint16_t data[8][8];

    if (stop != SG_STOP_NONE)
        return stop;
    for (unsigned lane = 0; lane < SG_LANES; lane++)
        for (unsigned j = 0; j < 2; j++)
            data[lane / 4][lane % 4 * 2 + j] =
                (uint16_t)(sg_reg_w(warp, op->a)[lane] >> (16 * j));
    for (unsigned lane = 0; lane < SG_LANES; lane++)
        sg_reg_w(warp, op->d)[lane] = data[lane % 4 * 2][lane / 4] |
                                      (uint32_t)data[lane % 4 * 2 + 1][lane / 4] << 16;
    return SG_STOP_NONE;
}
