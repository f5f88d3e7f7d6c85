/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_pieces.h"

#include "gp_log.h"
#include "gp_time.h"
#include "gp_trial.h"
#include "stub_call.h"
#include "stub_link.h"
#include "wire_api.h"
#include "xport.h"

#include <stdatomic.h>

/* Shorter copies have one piece or two.  Uploads count from where their call ends when
 * the worker has received them, not when they lie in a queue. */
#define DOWN_LEAST (512u << 10)
#define UP_LEAST (1u << 20)

#define WAYS 2 /* directions: STUB_H2D, STUB_D2H */
static_assert(STUB_H2D < WAYS && STUB_D2H < WAYS, "the first two directions");

static struct pieces {
    atomic_flag busy;            /* somebody measures, and has all of this */
    struct gp_trial trial[WAYS]; /* way 0: the length that both ends begin with */
    uint32_t length[WAYS];       /* in use; 0: that length */
} pieces[STUB_LINKS_MAX];        /* by number */

/* Both ends follow, the worker from the next frame on. */
static void
pieces_tell(struct stub_link *link, const struct pieces *p)
{
    struct wire_gp_pieces_req *req;
    struct stub_call c;

    if (stub_call_begin_on(&c, link, WIRE_CALL_gp_pieces, sizeof(*req)) != CUDA_SUCCESS)
        return;
    req = c.body;
    *req = (struct wire_gp_pieces_req){.up = p->length[STUB_H2D],
                                       .down = p->length[STUB_D2H]};
    stub_call_post_along(&c);
    xport_pieces(link->conn, p->length[STUB_H2D], p->length[STUB_D2H]);
}

static bool
is_measured(const struct stub_link *link, enum stub_direction direction, uint64_t n)
{
    return n >= (direction == STUB_H2D ? UP_LEAST : DOWN_LEAST) && link->takes_pieces &&
           xport_link_kind(link->conn) == XPORT_KIND_TCP;
}

void
stub_pieces_begin(struct stub_pieces_use *use, enum stub_direction direction,
                  uint64_t n)
{
    struct stub_link *link = stub_link_here();
    struct pieces *p = &pieces[link->number];
    struct gp_trial *trial;
    uint32_t length;

    use->link = NULL;
    if (!is_measured(link, direction, n) ||
        atomic_flag_test_and_set_explicit(&p->busy, memory_order_acquire))
        return;
    trial = &p->trial[direction];
    if (gp_trial_is_due(trial) && !xport_pieces_matter(link->conn))
        gp_trial_put_off(trial);
    length = gp_trial_way(trial, n) ? xport_piece_short() : 0;
    if (length != p->length[direction]) {
        p->length[direction] = length;
        pieces_tell(link, p);
    }
    *use = (struct stub_pieces_use){link, direction, n, gp_now_ns()};
}

void
stub_pieces_end(struct stub_pieces_use *use, bool whole)
{
    uint64_t ns = use->link ? gp_now_ns() - use->begun : 0;
    float cost[2];
    struct pieces *p;

    if (!use->link)
        return;
    p = &pieces[use->link->number];
    if (whole && gp_trial_took(&p->trial[use->direction], use->n, ns, cost))
        gp_log_info(
            "copy",
            "%s: pieces of %u KiB from now on, %.3f ns a byte where it was %.3f",
            use->direction == STUB_H2D ? "up" : "down",
            p->trial[use->direction].best ? xport_piece_short() >> 10 : 0,
            (double)cost[1], (double)cost[0]);
    atomic_flag_clear_explicit(&p->busy, memory_order_release);
}
