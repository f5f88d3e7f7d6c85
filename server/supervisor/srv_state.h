/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the supervisor knows that is nobody's in particular and that its successor has
 * to know (srv_kept.h).
 *
 * Owned by struct srv; event-loop thread only.
 */
#ifndef SRV_STATE_H
#define SRV_STATE_H

#include "srv_inventory.h"
#include "srv_kept.h"
#include "wrk_segment.h"

#include <stdint.h>

struct gp_err;
struct srv_conf;
struct srv_keeper;

struct srv_state {
    struct srv_kept_head head;
    /* What the workers and cards were made for; a supervisor that has others cannot
     * take them over. */
    char driver[1024];
    char memory[32];
    uint32_t cards;
    uint32_t reserved;
    uint64_t instance; /* told to the scheduler, as long as workers go on */
    uint64_t next_key; /* of workers and images at the keeper */
    uint64_t attached_total;
    /* What ended sessions spent, by the card's number at the arbiter. */
    uint64_t spent[SRV_CARDS_MAX][WRK_SPENT_KINDS];
};
SRV_KEPT_SIZE(struct srv_state, 4176);

/* A new one, left with @keeper if there is one. */
int srv_state_new(const struct srv_conf *conf, struct srv_keeper *keeper,
                  struct srv_state **ret, struct gp_err *err);
/* That of a supervisor that is gone; @fd stays the caller's.  -EPROTO, with words: we
 * cannot take over what it left. */
int srv_state_adopt(const struct srv_conf *conf, int fd, struct srv_state **ret,
                    struct gp_err *err);
void srv_state_free(struct srv_state *state); /* NULL is a no-op */

#endif
