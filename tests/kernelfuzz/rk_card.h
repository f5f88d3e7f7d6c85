/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random kernels on a card, through a CUDA driver: is the reference right?
 *
 * A struct rk_card owns a context of the driver's first card and memory for the largest
 * kernel there.  One thread.
 */
#ifndef RK_CARD_H
#define RK_CARD_H

#include "rk_kernel.h"

struct gp_err;
struct rk_card;

/* Load the libcuda.so.1 at @path and take its first card.  < 0 and @err on failure. */
int rk_card_new(const char *path, struct rk_card **ret, struct gp_err *err);
void rk_card_free(struct rk_card *card); /* NULL is a no-op */

/* Compile @k by the driver, run it on what @m holds, and read back what it leaves in
 * own, out and cells. */
int rk_card_run(struct rk_card *card, const struct rk_kernel *k, struct rk_memory *m,
                struct gp_err *err);

/* Compile @text and launch its kernel k(in, out) on copies of these. */
int rk_card_run_text(struct rk_card *card, const char *text, unsigned grid,
                     unsigned block, const void *in, size_t n_in, void *out,
                     size_t n_out, struct gp_err *err);

/* A kernel ended in a fault: the process can use the card no more. */
bool rk_card_is_lost(const struct rk_card *card);

#endif
