/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random kernels on the executor, and against the reference.
 *
 * A struct rk_run owns device memory for the largest kernel and is used again and
 * again, by one thread.  Which build of the executor runs is the process's SOFTGPU_ISA.
 */
#ifndef RK_RUN_H
#define RK_RUN_H

#include "rk_kernel.h"

#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct rk_card;
struct rk_run;

struct rk_run *rk_run_new(void);
void rk_run_free(struct rk_run *run); /* NULL is a no-op */

/* Whether the executor leaves what the reference says; @order: 0, or fragments and
 * warps are picked at random by it.  If not, @words says what differs first. */
bool rk_run_agrees(struct rk_run *run, const struct rk_kernel *k, uint64_t order,
                   char *words, size_t size);

/* Kernels run on @card from now on, which outlives @run, and not on the executor. */
void rk_run_on_card(struct rk_run *run, struct rk_card *card);

/* Device memory of @run, as long as @run. */
void *rk_run_memory(struct rk_run *run, size_t bytes);
/* Run the kernel k of @text on the executor; its parameters get @values. */
int rk_run_text(struct rk_run *run, const char *text, unsigned grid, unsigned block,
                const uint64_t *values, unsigned n_values, struct gp_err *err);

/* Kernels are checked (SG_CHECK_*) as they run; one that a check accuses differs. */
void rk_run_check(struct rk_run *run, unsigned check);

/* Turn off every statement that the difference does not need. */
void rk_run_shrink(struct rk_run *run, struct rk_kernel *k, uint64_t order);

/* What the reference gives has this bit changed: tests of the search itself. */
void rk_run_break_reference(struct rk_run *run, const char *op);

#endif
