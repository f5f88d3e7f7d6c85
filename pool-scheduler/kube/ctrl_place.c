/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of claims in the scheduler's queue.
 *
 * A claim for which there is no room takes a place, as `gpupool run --wait` does: what
 * comes free goes to the queue first, and who has waited for some time has cards kept
 * for it.  Without one, claims that ask for little and come later would take for ever
 * what one that asks for much needs.  Each place is a connection of its own, so the
 * CTRL_PLACES_MAX claims that have waited longest have one; the others are tried at
 * each change of the pool, behind those.  The claims of a pod wait as a gang, which is
 * served all at once or not at all.
 *
 * A session that a place was served with is known as any other from then on
 * (ctrl_session_granted()), and its claim is looked at.
 */
#include "ctl_call.h"
#include "ctl_limits.h"
#include "ctrl.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"

#include <errno.h>
#include <string.h>

#define RETRY_NS (1 * GP_NS_PER_S)
/* Who waits hears something every twenty seconds, less often where many thousands wait.
 * A link on which nothing comes for so long is dead; the proof is good for two minutes.
 */
#define SILENCE_NS (100 * GP_NS_PER_S)
/* The scheduler has refused the place: its queue is full, or a quota can never give
 * what the claim asks for. */
#define REFUSED_NS (20 * GP_NS_PER_S)

struct ctrl_place {
    struct ctrl_place *next;
    struct ctrl *ctrl;
    struct gp_msg_conn conn;
    bool connected;
    bool refused; /* it is none, and none is asked for until the timer ends it */
    struct gp_loop_timer timer; /* connect again; or the link is dead */
    char address[CTL_ENDPOINT_MAX];
    struct ctrl_place_proof proof;
    uint8_t *wanted; /* the request, without @proof */
    size_t wanted_len;
    struct kube_ask ask; /* its strings are those below */
    struct kube_class class;
    char words[400]; /* what it waits for */
    char *key, *name, *program, *card, *node;
    char *gang; /* empty: alone */
    unsigned gang_size;
};

static void on_timer(struct gp_loop_timer *timer);

static void
arm(struct ctrl_place *place, uint64_t after_ns)
{
    gp_loop_timer_set(place->ctrl->loop, &place->timer, gp_now_ns() + after_ns,
                      on_timer);
}

static void
disconnect(struct ctrl_place *place)
{
    if (place->connected)
        gp_msg_conn_fini(&place->conn);
    place->connected = false;
}

static void
place_free(struct ctrl_place *place)
{
    if (!place)
        return;
    gp_loop_timer_del(&place->timer);
    disconnect(place);
    free(place->wanted);
    free(place->key);
    free(place->name);
    free(place->program);
    free(place->card);
    free(place->node);
    free(place->gang);
    free(place);
}
DEFINE_CLEANUP(struct ctrl_place, place_free)

static struct ctrl_place **
find(struct ctrl *ctrl, const char *key)
{
    struct ctrl_place **at = &ctrl->places.first;

    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    return at;
}

/* Its claim is looked at, which then has none. */
static void
end_place(struct ctrl_place *place)
{
    struct ctrl *ctrl = place->ctrl;
    struct ctrl_place **at = find(ctrl, place->key);

    *at = place->next;
    ctrl->places.n--;
    ctrl_queue_name(ctrl, "c:", place->key);
    place_free(place);
}

/* ------------------------------------------------------------- connections -- */

static int
pack(struct ctrl_place *place, const struct ctrl_place_proof *proof,
     uint8_t **ret_bytes, size_t *ret_len, struct gp_err *err)
{
    const struct ctrl_wanted wanted = {place->name,   place->program, &place->ask,
                                       &place->class, place->gang,    place->gang_size};

    return ctrl_pool_pack_wait(&place->ctrl->pool, &wanted, proof, ret_bytes, ret_len,
                               err);
}

static void
on_queued(struct ctrl_place *place, const Gpupool__Ctl__CtlQueued *queued)
{
    char words[sizeof(place->words)];

    if (queued->place.len <= sizeof(place->proof.bytes)) {
        memcpy(place->proof.bytes, queued->place.data, queued->place.len);
        place->proof.len = queued->place.len;
    }
    snprintf(words, sizeof(words),
             "waits at place %u of %u in the scheduler's queue: %s", queued->position,
             queued->waiting, queued->reason);
    gp_utf8_mask(words);
    if (strcmp(words, place->words) != 0)
        ctrl_queue_name(place->ctrl, "c:", place->key);
    gp_str_copy(place->words, sizeof(place->words), words);
    arm(place, SILENCE_NS);
}

static void
on_grant(struct ctrl_place *place, const Gpupool__Ctl__CtlGrant *message)
{
    struct ctrl_grant grant;
    struct gp_err err = {0};
    int r = ctrl_pool_grant(message, &grant, &err);

    /* Those of a pod are looked at together, when their claims ask for them. */
    if (!r && *place->gang)
        ctrl_session_unsure(place->ctrl, place->name);
    else if (!r)
        r = ctrl_session_granted(place->ctrl, place->name, &grant);
    if (r < 0) /* it is found when the claim asks for it */
        gp_log_warn("place", "%s: %s", place->name, gp_err_msg(&err, r));
    end_place(place);
}

static void
on_error(struct ctrl_place *place, const Gpupool__Ctl__CtlReply *reply)
{
    if (reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER) {
        disconnect(place);
        arm(place, ctrl_pool_follow(&place->ctrl->pool, reply) ? 0 : RETRY_NS);
        return;
    }
    gp_log_info("place", "%s: %s", place->name, reply->error->words);
    disconnect(place);
    place->refused = true;
    arm(place, REFUSED_NS);
}

static void
on_msg(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct ctrl_place *place = container_of(conn, struct ctrl_place, conn);
    CLEANUP(ctl_reply_freep)
    Gpupool__Ctl__CtlReply *reply = gpupool__ctl__ctl_reply__unpack(NULL, len, data);

    if (reply && !reply->id)
        return; /* a notice: of keys, of the end of a session */
    if (reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED) {
        on_queued(place, reply->queued);
    } else if (reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT) {
        on_grant(place, reply->grant);
    } else if (reply && reply->error) {
        on_error(place, reply);
    } else {
        disconnect(place);
        arm(place, RETRY_NS);
    }
}

/* With its proof it has its place again, if that is not gone for too long. */
static void
on_close(struct gp_msg_conn *conn, int code)
{
    struct ctrl_place *place = container_of(conn, struct ctrl_place, conn);

    disconnect(place);
    arm(place, RETRY_NS);
}

static int
connect_place(struct ctrl_place *place, struct gp_err *err)
{
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t len;
    int r = pack(place, &place->proof, &bytes, &len, err);

    if (!r)
        r = ctrl_pool_dial(&place->ctrl->pool, place->address, &place->conn, on_msg,
                           on_close, err);
    if (r < 0)
        return r;
    place->connected = true;
    r = gp_msg_conn_send(&place->conn, bytes, len);
    if (r < 0)
        disconnect(place);
    return r;
}

/* Nobody answers one of them: the others wait as well, since each try takes time. */
static void
on_timer(struct gp_loop_timer *timer)
{
    struct ctrl_place *place = container_of(timer, struct ctrl_place, timer);
    struct ctrl_places *places = &place->ctrl->places;
    struct gp_err err = {0};
    uint64_t now = gp_now_ns();
    int r;

    disconnect(place);
    if (place->refused) {
        end_place(place);
        return;
    }
    if (now < places->retry_ns) {
        arm(place, places->retry_ns - now);
        return;
    }
    r = connect_place(place, &err);
    if (r < 0) {
        gp_log_debug("place", "%s: %s", place->name, gp_err_msg(&err, r));
        places->retry_ns = gp_now_ns() + RETRY_NS;
    }
    arm(place, r < 0 ? RETRY_NS : SILENCE_NS);
}

/* ------------------------------------------------------------------ places -- */

static struct ctrl_place *
place_new(struct ctrl *ctrl, const char *key, const struct ctrl_wanted *wanted)
{
    static const struct ctrl_place_proof NONE;
    CLEANUP(place_freep) struct ctrl_place *place = calloc(1, sizeof(*place));

    if (!place)
        return NULL;
    place->ctrl = ctrl;
    place->ask = *wanted->ask;
    place->class = *wanted->class;
    place->class.name = place->class.provisioner = NULL; /* the object's */
    place->key = strdup(key);
    place->name = strdup(wanted->name);
    place->program = strdup(wanted->program);
    place->ask.card = place->card = strdup(wanted->ask->card ? wanted->ask->card : "");
    place->ask.node = place->node = strdup(wanted->ask->node ? wanted->ask->node : "");
    place->gang = strdup(wanted->gang ? wanted->gang : "");
    place->gang_size = wanted->gang_size;
    if (!place->key || !place->name || !place->program || !place->card ||
        !place->node || !place->gang ||
        pack(place, &NONE, &place->wanted, &place->wanted_len, NULL) < 0)
        return NULL;
    return TAKE_PTR(place);
}

static bool
is_for(struct ctrl_place *place, const struct ctrl_wanted *wanted)
{
    static const struct ctrl_place_proof NONE;
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t len;

    return ctrl_pool_pack_wait(&place->ctrl->pool, wanted, &NONE, &bytes, &len, NULL) ==
               0 &&
           len == place->wanted_len && memcmp(bytes, place->wanted, len) == 0;
}

int
ctrl_place_look(struct ctrl *ctrl, const char *key, const struct ctrl_wanted *wanted,
                struct gp_err *err)
{
    struct ctrl_place *place = *find(ctrl, key);

    if (place && !is_for(place, wanted)) {
        ctrl_place_leave(ctrl, key);
        place = NULL;
    }
    if (!place || place->refused)
        return 0;
    return gp_err_set(err, -EAGAIN, "%s", place->words);
}

static bool
same_namespace(const char *a, const char *b)
{
    size_t len = strcspn(a, "/");

    return strncmp(a, b, len + 1) == 0;
}

/* Those of the namespace of @key. */
static unsigned
places_of(const struct ctrl *ctrl, const char *key)
{
    unsigned n = 0;

    for (const struct ctrl_place *p = ctrl->places.first; p; p = p->next)
        n += same_namespace(p->key, key);
    return n;
}

/* Those that namespaces have beyond @most each. */
static unsigned
places_over(const struct ctrl *ctrl, unsigned most)
{
    unsigned n = 0;

    for (const struct ctrl_place *p = ctrl->places.first; p; p = p->next) {
        unsigned before = 0;

        for (const struct ctrl_place *q = ctrl->places.first; q != p; q = q->next)
            before += same_namespace(q->key, p->key);
        n += before >= most;
    }
    return n;
}

/* The youngest place of the namespace that has most, and what waits together with that,
 * if it has more than @most. */
static bool
give_place(struct ctrl *ctrl, unsigned most)
{
    struct ctrl_place *gives = NULL;
    CLEANUP_FREE char *gang = NULL;

    for (struct ctrl_place *p = ctrl->places.first; p; p = p->next) {
        unsigned n = places_of(ctrl, p->key);

        if (n <= most)
            continue;
        most = n - 1;
        gives = p;
    }
    gang = gives && *gives->gang ? strdup(gives->gang) : NULL;
    if (gives)
        ctrl_place_leave(ctrl, gives->key);
    for (struct ctrl_place *p = ctrl->places.first, *next; gang && p; p = next) {
        next = p->next;
        if (!strcmp(p->gang, gang))
            ctrl_place_leave(ctrl, p->key);
    }
    return gives;
}

/* @n more for the namespace of @key.  No namespace keeps others out: where there are
 * not as many, those give some that have more than it will have; none gives any if they
 * do not suffice. */
static bool
make_room(struct ctrl *ctrl, const char *key, unsigned n)
{
    unsigned most = places_of(ctrl, key) + n;

    if (n > CTRL_PLACES_MAX - ctrl->places.n + places_over(ctrl, most))
        return false;
    while (n > CTRL_PLACES_MAX - ctrl->places.n)
        if (!give_place(ctrl, most))
            return false;
    return true;
}

static void
enqueue(struct ctrl *ctrl, struct ctrl_place *place, const char *words)
{
    struct ctrl_place **last = &ctrl->places.first;

    gp_str_copy(place->words, sizeof(place->words), words);
    while (*last)
        last = &(*last)->next;
    *last = place;
    ctrl->places.n++;
    arm(place, 0);
}

bool
ctrl_place_take(struct ctrl *ctrl, const char *key, const struct ctrl_wanted *wanted,
                const char *words)
{
    return ctrl_places_take(ctrl, &key, wanted, 1, words);
}

/* How many of them wait in places for what is wanted.  One that waits for something
 * else has left its place.  *ret_refused: one was refused its own. */
static size_t
count_waiting(struct ctrl *ctrl, const char *const *keys,
              const struct ctrl_wanted *list, size_t n, bool *ret_refused)
{
    size_t waiting = 0;

    *ret_refused = false;
    for (size_t i = 0; i < n; i++) {
        waiting += ctrl_place_look(ctrl, keys[i], &list[i], NULL) == -EAGAIN;
        *ret_refused |= *find(ctrl, keys[i]) && (*find(ctrl, keys[i]))->refused;
    }
    return waiting;
}

bool
ctrl_places_take(struct ctrl *ctrl, const char *const *keys,
                 const struct ctrl_wanted *list, size_t n, const char *words)
{
    struct ctrl_place *places[CTL_OPEN_MANY_MAX] = {NULL};
    bool refused;
    size_t i;

    if (count_waiting(ctrl, keys, list, n, &refused) == n || refused)
        return true;
    for (i = 0; i < n; i++)
        ctrl_place_leave(ctrl, keys[i]);
    if (!make_room(ctrl, keys[0], (unsigned)n))
        return false;
    for (i = 0; i < n && (places[i] = place_new(ctrl, keys[i], &list[i])); i++)
        ;
    if (i < n) {
        while (i)
            place_free(places[--i]);
        return false;
    }
    for (i = 0; i < n; i++)
        enqueue(ctrl, places[i], words);
    return true;
}

const char *
ctrl_place_words(struct ctrl *ctrl, const char *key)
{
    const struct ctrl_place *place = *find(ctrl, key);

    return place && !place->refused ? place->words : NULL;
}

/* It may just have been served. */
void
ctrl_place_leave(struct ctrl *ctrl, const char *key)
{
    struct ctrl_place **at = find(ctrl, key), *place = *at;

    if (!place)
        return;
    *at = place->next;
    ctrl->places.n--;
    if (place->connected)
        ctrl_session_unsure(ctrl, place->name);
    place_free(place);
}

void
ctrl_places_leave(struct ctrl *ctrl)
{
    while (ctrl->places.first)
        ctrl_place_leave(ctrl, ctrl->places.first->key);
}
