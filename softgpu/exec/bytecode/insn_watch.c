/* SPDX-License-Identifier: Apache-2.0 */
#include "insn_watch.h"

#define SCALAR(op, to, bytes, ...)                                                     \
    [SG_OP_##op] = {.kind = SG_WATCH_ACCESS, .space = to, .size = bytes, __VA_ARGS__},
#define SCALARS(sp, to, ...)                                                           \
    SCALAR(LD##sp##_U8, to, 1, __VA_ARGS__)                                            \
    SCALAR(LD##sp##_S8, to, 1, __VA_ARGS__)                                            \
    SCALAR(LD##sp##_U16, to, 2, __VA_ARGS__)                                           \
    SCALAR(LD##sp##_S16, to, 2, __VA_ARGS__)                                           \
    SCALAR(LD##sp##_32, to, 4, __VA_ARGS__)                                            \
    SCALAR(LD##sp##_64, to, 8, .wide = true, __VA_ARGS__)                              \
    SCALAR(ST##sp##_8, to, 1, .store = true, __VA_ARGS__)                              \
    SCALAR(ST##sp##_16, to, 2, .store = true, __VA_ARGS__)                             \
    SCALAR(ST##sp##_32, to, 4, .store = true, __VA_ARGS__)                             \
    SCALAR(ST##sp##_64, to, 8, .store = true, .wide = true, __VA_ARGS__)
#define VECTORS(sp, to, ...)                                                           \
    SCALAR(LD##sp##_2X32, to, 8, .list = true, __VA_ARGS__)                            \
    SCALAR(LD##sp##_4X32, to, 16, .list = true, __VA_ARGS__)                           \
    SCALAR(LD##sp##_2X64, to, 16, .list = true, .wide = true, __VA_ARGS__)             \
    SCALAR(ST##sp##_2X32, to, 8, .list = true, .store = true, __VA_ARGS__)             \
    SCALAR(ST##sp##_4X32, to, 16, .list = true, .store = true, __VA_ARGS__)            \
    SCALAR(ST##sp##_2X64, to, 16, .list = true, .store = true, .wide = true,           \
           __VA_ARGS__)
#define OTHER(op, what, ...) [SG_OP_##op] = {.kind = SG_WATCH_##what, __VA_ARGS__},

/* clang-format off */
const struct sg_watch sg_watches[SG_N_OPS] = {
    SCALARS(G, SG_MEM_GLOBAL, .narrow = false)
    SCALARS(A, SG_MEM_GENERIC, .narrow = false)
    SCALARS(S, SG_MEM_SHARED, .narrow = true)
    SCALARS(T, SG_MEM_SHARED, .narrow = false)
    VECTORS(G, SG_MEM_GLOBAL, .narrow = false)
    VECTORS(A, SG_MEM_GENERIC, .narrow = false)
    VECTORS(S, SG_MEM_SHARED, .narrow = true)
    VECTORS(T, SG_MEM_SHARED, .narrow = false)
    OTHER(ATOM_W, ATOM, .size = 4)
    OTHER(ATOM_D, ATOM, .size = 8)
    OTHER(ATOM_H, ATOM, .size = 2)
    OTHER(ATOM_Q, ATOM, .size = 16)
    OTHER(MBAR, MBAR, .size = 8)
    OTHER(CPASYNC, CPASYNC, .size = 4)
    OTHER(BULK, BULK, .size = 16)
    OTHER(BULK_TENSOR, TENSOR, .size = 16)
    OTHER(LDMATRIX, ROWS, .size = 16)
    OTHER(STMATRIX, ROWS, .size = 16, .store = true)
    OTHER(WMMA_LD, WMMA, .size = 1)
    OTHER(WMMA_ST, WMMA, .size = 1, .store = true)
    OTHER(FENCE, FENCE)
    OTHER(BAR, BAR)
    OTHER(BAR_RED_POPC, BAR)
    OTHER(CLUSTER_ARRIVE, CLUSTER_ARRIVE)
    OTHER(CLUSTER_WAIT, CLUSTER_WAIT)
    OTHER(BAR_WARP, WARP)
    OTHER(SHFL, WARP)
    OTHER(VOTE, WARP)
    OTHER(BALLOT, WARP)
    OTHER(MATCH_W, WARP)
    OTHER(MATCH_D, WARP)
    OTHER(REDUX, WARP)
    OTHER(ELECT, WARP)
    OTHER(MMA, WARP)
    OTHER(MMA_QUADS, WARP)
    OTHER(WGMMA, WARP)
    OTHER(MOVMATRIX, WARP)
};
/* clang-format on */
