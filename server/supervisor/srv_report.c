/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_report.h"

#include "ctl_limits.h"
#include "srv.h"
#include "srv_arbiter.h"
#include "srv_health.h"
#include "srv_inventory.h"

#include <errno.h>
#include <string.h>

static uint64_t
card_used(const struct srv *srv, const uint8_t *uuid)
{
    uint64_t sum = 0;

    for (const struct srv_session *s = srv->sessions; s; s = s->next) {
        for (uint32_t i = 0; i < s->claims.n_slices; i++) {
            if (memcmp(s->claims.slices[i].card_uuid, uuid, TICKET_UUID_SIZE) == 0)
                sum += srv_session_used(s, i);
        }
    }
    return sum;
}

static void
report_cards(struct srv_report *rep, const struct srv *srv)
{
    for (size_t i = 0; i < rep->n_cards; i++) {
        const struct srv_card *card = srv_inventory_card(srv->inventory, (uint32_t)i);
        Gpupool__Ctl__CtlCard *c = &rep->cards[i];

        gpupool__ctl__ctl_card__init(c);
        c->uuid.data = (uint8_t *)(uintptr_t)card->uuid;
        c->uuid.len = TICKET_UUID_SIZE;
        c->name = (char *)(uintptr_t)card->name;
        c->memory_bytes = card->memory;
        c->reserved_bytes = card->reserved;
        c->sms = card->sms;
        c->cc_major = card->cc_major;
        c->cc_minor = card->cc_minor;
        c->index = card->index;
        c->island = card->island;
        c->fault = (char *)(uintptr_t)srv_health_fault(srv->health, card->at);
        c->used_bytes = card_used(srv, card->uuid);
        c->busy_percent = srv_arbiter_busy(srv->arbiter, card->at);
        rep->card_ptrs[i] = c;
    }
}

static void
take_use(const struct srv_session *s, struct srv_use *ret)
{
    ret->session = s->claims.session_id;
    ret->attachments = s->n_workers;
    ret->n_slices = s->claims.n_slices;
    srv_session_links(s, ret->links);
    for (uint32_t i = 0; i < s->claims.n_slices; i++) {
        struct srv_slice_use *slice = &ret->slices[i];

        memcpy(slice->card, s->claims.slices[i].card_uuid, TICKET_UUID_SIZE);
        slice->used_bytes = srv_session_used(s, i);
        slice->high_bytes = srv_session_high(s, i);
        slice->gpu_ns = srv_session_spent(s, WRK_SPENT_GPU_NS, i);
        slice->launches = srv_session_spent(s, WRK_SPENT_LAUNCHES, i);
        slice->wait_ns = srv_session_spent(s, WRK_SPENT_WAIT_NS, i);
        slice->moved_bytes = srv_session_spent(s, WRK_SPENT_MOVED, i);
    }
}

static void
report_use(struct srv_report *rep, size_t at, bool ended)
{
    Gpupool__Ctl__CtlSessionUse *msg = &rep->sessions[at];
    struct srv_use *use = &rep->uses[at];
    size_t base = at * TICKET_SLICES_MAX;

    gpupool__ctl__ctl_session_use__init(msg);
    msg->session_id = use->session;
    msg->attachments = use->attachments;
    msg->links = use->links;
    msg->ended = ended;
    msg->n_slices = use->n_slices;
    msg->slices = &rep->slice_ptrs[base];
    for (uint32_t i = 0; i < use->n_slices; i++) {
        Gpupool__Ctl__CtlSliceUse *slice = &rep->slices[base + i];

        gpupool__ctl__ctl_slice_use__init(slice);
        slice->card_uuid = (ProtobufCBinaryData){TICKET_UUID_SIZE, use->slices[i].card};
        slice->used_bytes = use->slices[i].used_bytes;
        slice->high_bytes = use->slices[i].high_bytes;
        slice->gpu_ns = use->slices[i].gpu_ns;
        slice->launches = use->slices[i].launches;
        slice->wait_ns = use->slices[i].wait_ns;
        slice->moved_bytes = use->slices[i].moved_bytes;
        rep->slice_ptrs[base + i] = slice;
    }
    rep->session_ptrs[at] = msg;
}

/* A closed session stays in the report for as long as a worker of it lives: its
 * place must not be given away before. */
static bool
reported(const struct srv_session *s)
{
    return s->n_workers > 0 || !s->closed;
}

static int
make_room(struct srv_report *rep, size_t n)
{
    rep->cards = calloc(rep->n_cards + 1, sizeof(*rep->cards));
    rep->card_ptrs = calloc(rep->n_cards + 1, sizeof(*rep->card_ptrs));
    rep->uses = calloc(n + 1, sizeof(*rep->uses));
    rep->sessions = calloc(n + 1, sizeof(*rep->sessions));
    rep->session_ptrs = calloc(n + 1, sizeof(*rep->session_ptrs));
    rep->slices = calloc((n + 1) * TICKET_SLICES_MAX, sizeof(*rep->slices));
    rep->slice_ptrs = calloc((n + 1) * TICKET_SLICES_MAX, sizeof(*rep->slice_ptrs));
    if (rep->cards && rep->card_ptrs && rep->uses && rep->sessions &&
        rep->session_ptrs && rep->slices && rep->slice_ptrs)
        return 0;
    srv_report_fini(rep);
    return -ENOMEM;
}

int
srv_report_init(struct srv_report *rep, const struct srv *srv,
                const struct srv_ended *ended)
{
    size_t at = 0, live = 0;
    int r;

    *rep = (struct srv_report){.n_cards = srv_inventory_count(srv->inventory)};
    for (const struct srv_session *s = srv->sessions; s; s = s->next)
        live += reported(s);
    live = gp_min(live, (size_t)CTL_SERVER_SESSIONS_MAX);
    rep->n_ended = ended ? gp_min(ended->n, CTL_SERVER_SESSIONS_MAX - live) : 0;
    rep->n_sessions = live + rep->n_ended;
    r = make_room(rep, rep->n_sessions);
    if (r < 0)
        return r;
    report_cards(rep, srv);
    for (const struct srv_session *s = srv->sessions; s && at < live; s = s->next) {
        if (!reported(s))
            continue;
        take_use(s, &rep->uses[at]);
        report_use(rep, at++, false);
    }
    for (size_t i = 0; i < rep->n_ended; i++) {
        rep->uses[at] = ended->uses[i];
        report_use(rep, at++, true);
    }
    return 0;
}

void
srv_report_fini(struct srv_report *rep)
{
    free(rep->cards);
    free(rep->card_ptrs);
    free(rep->uses);
    free(rep->sessions);
    free(rep->session_ptrs);
    free(rep->slices);
    free(rep->slice_ptrs);
    *rep = (struct srv_report){0};
}

/* ---- sessions that have ended ---- */

void
srv_ended_add(struct srv_ended *ended, const struct srv_session *s)
{
    if (ended->n == ended->room) {
        size_t room = gp_min(ended->room * 2 + 16, (size_t)SRV_ENDED_MAX);
        struct srv_use *uses =
            ended->n < room ? realloc(ended->uses, room * sizeof(*uses)) : NULL;

        if (!uses)
            return;
        ended->uses = uses;
        ended->room = room;
    }
    memset(&ended->uses[ended->n], 0, sizeof(ended->uses[0]));
    take_use(s, &ended->uses[ended->n++]);
}

void
srv_ended_reported(struct srv_ended *ended, const struct srv_report *rep)
{
    ended->n -= rep->n_ended;
    if (ended->n)
        memmove(ended->uses, ended->uses + rep->n_ended,
                ended->n * sizeof(ended->uses[0]));
    else
        srv_ended_free(ended);
}

void
srv_ended_free(struct srv_ended *ended)
{
    free(ended->uses);
    *ended = (struct srv_ended){0};
}
