/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers and the cards of a pool as Prometheus text, for sched_metrics_text.c.
 *
 * Servers are sums over their cards, which the pool keeps; all are written at once.
 * Cards are a page of their own, in pieces between which the loop serves everybody
 * else: a pool of 80,000 cards has half a million lines.  A number of a card is of the
 * moment at which its piece was made.  A scheduler that @follows another one leaves out
 * what servers report, which it does not know.  No state but an answer's own, which
 * does not grow with the pool; event loop thread only.
 */
#ifndef SCHED_METRICS_CARDS_H
#define SCHED_METRICS_CARDS_H

#include <stdbool.h>

struct gp_http_answer;
struct gp_http_request;
struct sched_pool;

#define SCHED_METRICS_CARDS_PATH "/metrics/cards"

/* Lines of all servers; the memory is kept from one answer to the next, because fresh
 * pages from the kernel cost more than what is written into them. */
struct sched_metrics_page;

void sched_metrics_page_free(struct sched_metrics_page *page); /* NULL is a no-op */
/* They follow the body of @answer, which takes them from *@kept, made when it is NULL,
 * or has memory of its own while another answer is being sent.  -ENOMEM: nothing
 * follows.  *@kept is freed after the last answer. */
int sched_metrics_put_servers(struct sched_metrics_page **kept,
                              const struct sched_pool *pool, bool follows,
                              struct gp_http_answer *answer);
/* The cards of all servers, or, with "?server=NAME" in @request, of one. */
void sched_metrics_cards_answer(const struct sched_pool *pool, bool follows,
                                const struct gp_http_request *request,
                                struct gp_http_answer *answer);

#endif
