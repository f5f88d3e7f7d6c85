/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_renewed.h"

#include "gp_err.h"
#include "gp_str.h"
#include "sched_draft.h"
#include "sched_grant.h"
#include "sched_types.h"
#include "ticket_key.h"

#include <errno.h>
#include <string.h>

#define WORDS_MAX 80

/* What became of one session. */
struct one {
    uint64_t id;
    uint32_t lease_ms; /* 0: it is refused */
    struct sched_grant *grant;
    Gpupool__Ctl__CtlCode code;
    char words[WORDS_MAX];
};

struct sched_renewed {
    struct sched_draft draft;
    size_t *waiting; /* the scheduler's count of tickets; its own thread's */
    uint32_t request;
    uint8_t keys[2][TICKET_PUB_SIZE]; /* the scheduler's that are good */
    size_t n_keys, n, n_renewed, n_grants;
    struct one list[];
};

static int renewed_pack(const struct sched_draft *draft, uint8_t **ret,
                        size_t *ret_size, struct gp_err *err);

static void
renewed_free(struct sched_draft *draft)
{
    sched_renewed_free(container_of(draft, struct sched_renewed, draft));
}

static void
add_key(struct sched_renewed *renewed, const struct ticket_key *key)
{
    if (key)
        memcpy(renewed->keys[renewed->n_keys++], ticket_key_pub(key), TICKET_PUB_SIZE);
}

struct sched_renewed *
sched_renewed_new(struct sched *sched, uint32_t request, size_t n)
{
    struct sched_renewed *renewed =
        calloc(1, sizeof(*renewed) + n * sizeof(renewed->list[0]));

    if (!renewed)
        return NULL;
    renewed->draft = (struct sched_draft){
        .name = "a batch", .pack = renewed_pack, .free = renewed_free};
    renewed->request = request;
    renewed->waiting = &sched->batch_tickets;
    add_key(renewed, sched->key);
    add_key(renewed, sched->old_key);
    return renewed;
}

void
sched_renewed_free(struct sched_renewed *renewed)
{
    if (!renewed)
        return;
    *renewed->waiting -= renewed->n_grants;
    for (size_t i = 0; i < renewed->n; i++)
        sched_grant_free(renewed->list[i].grant);
    free(renewed);
}

void
sched_renewed_add(struct sched_renewed *renewed, uint64_t id, uint32_t lease_ms,
                  struct sched_grant *grant)
{
    renewed->list[renewed->n++] =
        (struct one){.id = id, .lease_ms = lease_ms, .grant = grant};
    renewed->n_renewed++;
    renewed->n_grants += grant != NULL;
    *renewed->waiting += grant != NULL;
}

void
sched_renewed_refuse(struct sched_renewed *renewed, uint64_t id,
                     Gpupool__Ctl__CtlCode code, const char *words)
{
    struct one *one = &renewed->list[renewed->n++];

    *one = (struct one){.id = id, .code = code};
    gp_str_copy(one->words, sizeof(one->words), words);
}

size_t
sched_renewed_count(const struct sched_renewed *renewed)
{
    return renewed->n_renewed;
}

bool
sched_renewed_signs(const struct sched_renewed *renewed)
{
    return renewed->n_grants;
}

struct sched_draft *
sched_renewed_draft(struct sched_renewed *renewed)
{
    return &renewed->draft;
}

/* ------------------------------------------------------------------- message -- */

/* What the message of one session points to. */
struct place {
    Gpupool__Ctl__CtlRenewedOne msg;
    Gpupool__Ctl__CtlError error;
    Gpupool__Ctl__CtlGrant grant;
    struct sched_grant_lists *lists;
};

struct places {
    size_t n;
    Gpupool__Ctl__CtlRenewedOne **list;
    struct place *places;
};

static void
places_fini(struct places *p)
{
    for (size_t i = 0; p->places && i < p->n; i++)
        sched_grant_lists_free(p->places[i].lists);
    free(p->places);
    free(p->list);
}

static int
fill(const struct one *one, struct place *place, struct gp_err *err)
{
    int r;

    gpupool__ctl__ctl_renewed_one__init(&place->msg);
    place->msg.session_id = one->id;
    place->msg.lease_ms = one->lease_ms;
    if (!one->lease_ms) {
        gpupool__ctl__ctl_error__init(&place->error);
        place->error.code = one->code;
        place->error.words = (char *)(uintptr_t)one->words;
        place->msg.error = &place->error;
    }
    if (!one->grant)
        return 0;
    r = sched_grant_message(one->grant, &place->grant, &place->lists, err);
    if (!r)
        place->msg.grant = &place->grant;
    return r;
}

static int
renewed_pack(const struct sched_draft *draft, uint8_t **ret, size_t *ret_size,
             struct gp_err *err)
{
    const struct sched_renewed *renewed =
        container_of(draft, const struct sched_renewed, draft);
    CLEANUP(places_fini)
    struct places p = {.n = renewed->n,
                       .list = calloc(renewed->n + 1, sizeof(p.list[0])),
                       .places = calloc(renewed->n + 1, sizeof(p.places[0]))};
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlRenewed body = GPUPOOL__CTL__CTL_RENEWED__INIT;
    ProtobufCBinaryData keys[2];
    int r = p.list && p.places ? 0 : -ENOMEM;

    for (size_t i = 0; !r && i < p.n; i++) {
        r = fill(&renewed->list[i], &p.places[i], err);
        p.list[i] = &p.places[i].msg;
    }
    if (r < 0)
        return r;
    for (size_t i = 0; i < renewed->n_keys; i++)
        keys[i] = (ProtobufCBinaryData){TICKET_PUB_SIZE,
                                        (uint8_t *)(uintptr_t)renewed->keys[i]};
    body.sessions = p.list;
    body.n_sessions = p.n;
    body.scheduler_keys = keys;
    body.n_scheduler_keys = renewed->n_keys;
    reply.id = renewed->request;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_RENEWED;
    reply.renewed = &body;
    return sched_draft_pack(&reply, ret, ret_size);
}
