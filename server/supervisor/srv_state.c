/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_state.h"

#include "gp_err.h"
#include "gp_str.h"
#include "srv_conf.h"
#include "srv_keeper.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

int
srv_state_new(const struct srv_conf *conf, struct srv_keeper *keeper,
              struct srv_state **ret, struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    struct srv_state *state;
    void *map = NULL;
    int r = srv_kept_new(SRV_KEPT_SERVER, sizeof(*state), &fd, &map, err);

    if (r < 0)
        return r;
    state = map;
    gp_str_copy(state->driver, sizeof(state->driver), conf->driver);
    gp_str_copy(state->memory, sizeof(state->memory), conf->memory);
    state->cards = conf->cards;
    state->next_key = 1;
    if (getrandom(&state->instance, sizeof(state->instance), 0) !=
        (ssize_t)sizeof(state->instance)) {
        srv_state_free(state);
        return gp_err_set(err, -EIO, "no random bytes");
    }
    srv_keeper_put(keeper, SRV_KEEP_STATE, 0, 0, &fd, 1);
    *ret = state;
    return 0;
}

/* Longer names of a driver are cut, in both. */
static bool
same(const char *kept, size_t size, const char *now)
{
    return strncmp(kept, now, size - 1) == 0;
}

int
srv_state_adopt(const struct srv_conf *conf, int fd, struct srv_state **ret,
                struct gp_err *err)
{
    struct srv_state *state;
    void *map = NULL;
    int r = srv_kept_map(fd, SRV_KEPT_SERVER, sizeof(*state), &map);

    if (r < 0)
        return gp_err_set(err, -EPROTO,
                          "the supervisor before this one was of another version");
    state = map;
    if (!same(state->driver, sizeof(state->driver), conf->driver) ||
        !same(state->memory, sizeof(state->memory), conf->memory) ||
        state->cards != conf->cards) {
        srv_state_free(state);
        return gp_err_set(err, -EPROTO,
                          "the supervisor before this one had another --driver, "
                          "--cards or --memory");
    }
    *ret = state;
    return 0;
}

void
srv_state_free(struct srv_state *state)
{
    srv_kept_unmap(state, sizeof(*state));
}
