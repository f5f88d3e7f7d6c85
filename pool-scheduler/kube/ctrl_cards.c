/* SPDX-License-Identifier: Apache-2.0 */
/* The cards of the pool as ElasticGPU objects: `kubectl get elasticgpus`. */
#include "ctl_call.h"
#include "ctrl.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The scheduler answers a close when the server has, which a lost one never does. */
#define GIVE_UP_MS 100

static void
object_name(char name[48], const Gpupool__Ctl__CtlCard *card)
{
    ctrl_pool_uuid(name, &card->uuid);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

static json_t *
spec_of(const Gpupool__Ctl__CtlServerStatus *server, const Gpupool__Ctl__CtlCard *card)
{
    struct kube_ask all = {.core = 100, .memory = card->memory_bytes, .cards = 1};
    char uuid[48];

    ctrl_pool_uuid(uuid, &card->uuid);
    return json_pack("{s:o, s:s, s:{s:s, s:s, s:s, s:s, s:[s]}}", "capacity",
                     kube_ask_write(&all), "nodeName", server->server, "remoteGPU",
                     "server", server->server, "endpoint", server->endpoint,
                     "transport", *server->rdma ? "rdma" : "tcp", "model", card->name,
                     "gpuUUIDs", uuid);
}

enum ctrl_card_state
ctrl_card_state(const Gpupool__Ctl__CtlServerStatus *server,
                const Gpupool__Ctl__CtlCardStatus *card)
{
    if (server->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD)
        return CTRL_CARD_DEAD;
    if (*card->card->fault)
        return CTRL_CARD_FAULTY;
    if (server->state != GPUPOOL__CTL__CTL_SERVER_STATE__CTL_ALIVE)
        return CTRL_CARD_DRAINING;
    return card->cordoned ? CTRL_CARD_CORDONED : CTRL_CARD_OPEN;
}

json_t *
ctrl_card_allocatable(const Gpupool__Ctl__CtlServerStatus *server,
                      const Gpupool__Ctl__CtlCardStatus *card)
{
    bool open = ctrl_card_state(server, card) == CTRL_CARD_OPEN;
    uint64_t all = card->card->memory_bytes;
    uint64_t memory = open ? all - gp_min(card->memory_given, all) : 0;
    uint32_t core = open ? 100 - gp_min(card->core_given, 100u) : 0;
    char core_text[16], memory_text[32];

    snprintf(core_text, sizeof(core_text), "%u", core);
    snprintf(memory_text, sizeof(memory_text), "%" PRIu64 "Mi", memory >> 20);
    return json_pack("{s:s, s:s}", "elasticgpu.io/gpu-core", core_text,
                     "elasticgpu.io/gpu-memory", memory_text);
}

static json_t *
status_of(const Gpupool__Ctl__CtlServerStatus *server,
          const Gpupool__Ctl__CtlCardStatus *card, const json_t *old)
{
    static const struct {
        const char *phase, *reason, *words;
    } STATES[] = {
        [CTRL_CARD_OPEN] = {"Available", "ServerAlive", ""},
        [CTRL_CARD_DEAD] = {"Failed", "ServerDead", "the server does not answer"},
        [CTRL_CARD_DRAINING] = {"Pending", "ServerDraining",
                                "the server takes no new sessions"},
        [CTRL_CARD_FAULTY] = {"Failed", "CardFaulty", NULL},
        [CTRL_CARD_CORDONED] = {"Pending", "CardCordoned",
                                "the card is kept from new sessions"},
    };
    enum ctrl_card_state state = ctrl_card_state(server, card);
    bool open = state == CTRL_CARD_OPEN;
    bool full = card->core_given >= 100 || card->slices >= card->slices_max;
    const char *reason = STATES[state].reason, *why = STATES[state].words;
    json_t *conditions = json_deep_copy(kube_at(old, "status.conditions"));
    char words[120];

    if (!conditions)
        conditions = json_array();
    snprintf(words, sizeof(words), "%u of %u slices are in use", card->slices,
             card->slices_max);
    kube_condition_set(conditions, "Ready", open, reason,
                       why ? why : card->card->fault);
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "phase",
                     open && full ? "Bound" : STATES[state].phase, "reason", reason,
                     "message", words, "allocatable",
                     ctrl_card_allocatable(server, card), "conditions", conditions);
}

static int
create_card(struct ctrl *ctrl, const char *name, json_t *spec, json_t **ret,
            struct gp_err *err)
{
    CLEANUP_JSON json_t *object =
        json_pack("{s:s, s:s, s:{s:s, s:{s:s, s:s}}, s:O}", "apiVersion",
                  kube_resource_version(&KUBE_GPUS), "kind", KUBE_GPUS.kind, "metadata",
                  "name", name, "labels", CTRL_KIND, "card", "elasticgpu.io/server",
                  kube_str(spec, "nodeName"), "spec", spec);
    int r = kube_api_create(ctrl->http, &KUBE_GPUS, NULL, object, ret, err);

    return r == -EEXIST ? kube_api_get(ctrl->http, &KUBE_GPUS, NULL, name, ret, err)
                        : r;
}

static int
put_card(struct ctrl *ctrl, const Gpupool__Ctl__CtlServerStatus *server,
         const Gpupool__Ctl__CtlCardStatus *card, json_t *seen, struct gp_err *err)
{
    CLEANUP_JSON json_t *spec = spec_of(server, card->card), *object = NULL;
    char name[48];
    int r = 0;

    object_name(name, card->card);
    json_object_set_new(seen, name, json_true());
    object = json_incref(kube_watch_get(&ctrl->gpus, "", name));
    if (!spec)
        return -ENOMEM;
    if (!object) {
        r = create_card(ctrl, name, spec, &object, err);
        if (r < 0)
            return r;
        kube_watch_put(&ctrl->gpus, object);
    }
    if (!json_equal(json_object_get(object, "spec"), spec)) {
        CLEANUP_JSON json_t *patch = json_pack("{s:O}", "spec", spec);
        json_t *answer = NULL;

        r = kube_api_patch(ctrl->http, &KUBE_GPUS, NULL, name, NULL, patch, &answer,
                           err);
        if (r < 0)
            return r;
        kube_watch_put(&ctrl->gpus, answer);
        json_decref(object);
        object = answer;
    }
    return ctrl_status(ctrl, &ctrl->gpus, object, status_of(server, card, object), err);
}

/* Cards of servers that the scheduler has forgotten. */
static int
remove_others(struct ctrl *ctrl, const json_t *seen, struct gp_err *err)
{
    const char *name;
    json_t *object;
    void *next;
    int r = 0;

    json_object_foreach_safe(ctrl->gpus.objects, next, name, object)
    {
        CLEANUP_FREE char *key = strdup(name);

        if (r < 0 || json_object_get(seen, name) || !key ||
            strcmp(kube_str_key(object, "metadata.labels", CTRL_KIND), "card") != 0)
            continue;
        r = kube_api_delete(ctrl->http, &KUBE_GPUS, NULL, name, kube_uid(object), err);
        if (r == -ENOENT)
            r = 0;
        if (!r)
            kube_watch_remove(&ctrl->gpus, key);
    }
    return r;
}

/* ------------------------------------------------------------ lost servers -- */

/* The session of a slice on a server that is lost: it ends, and its claim asks for
 * another, wherever there is room. */
static int
give_up(struct ctrl *ctrl, const json_t *gpu, const char *server, struct gp_err *err)
{
    const char *ns = kube_str(gpu, "spec.claimRef.namespace");
    const char *name = kube_str(gpu, "spec.claimRef.name");
    const json_t *claim = kube_watch_get(&ctrl->claims, ns, name);
    CLEANUP_FREE char *words = gp_str_printf(
        "server %s has not reported for %llu s; the session is given up", server,
        (unsigned long long)(ctrl->config.server_grace_ns / GP_NS_PER_S));
    int r;

    if (!ctrl_session_known(ctrl, kube_name(gpu)))
        return 0;
    r = ctrl_session_end(ctrl, kube_name(gpu), GIVE_UP_MS, err);
    if (r < 0)
        return r;
    gp_log_warn("gpu", "%s: %s", kube_name(gpu), words ? words : server);
    if (claim && words)
        ctrl_event(ctrl, &KUBE_CLAIMS, claim, true, "ServerLost", words);
    ctrl_queue_name(ctrl, "g:", kube_name(gpu));
    return 0;
}

static int
look_for_lost(struct ctrl *ctrl, const Gpupool__Ctl__CtlServerStatus *server,
              uint64_t up_ms, struct gp_err *err)
{
    /* A scheduler that has just started has heard nobody yet. */
    uint64_t silent = gp_min((uint64_t)server->silent_ms, up_ms) * GP_NS_PER_MS;
    uint64_t grace = ctrl->config.server_grace_ns;
    const char *name;
    json_t *gpu;
    int r = 0;

    if (server->state != GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD)
        return 0;
    if (silent < grace) {
        ctrl_queue_add_at(&ctrl->queue, "cards", gp_now_ns() + grace - silent);
        return 0;
    }
    json_object_foreach(ctrl->gpus.objects, name, gpu)
    {
        if (!r && strcmp(kube_str(gpu, "spec.nodeName"), server->server) == 0 &&
            strcmp(kube_str_key(gpu, "metadata.labels", CTRL_KIND), "slice") == 0)
            r = give_up(ctrl, gpu, server->server, err);
    }
    return r;
}

static int
lost_servers(struct ctrl *ctrl, const Gpupool__Ctl__CtlStatusReply *status,
             struct gp_err *err)
{
    int r = 0;

    for (size_t i = 0; !r && i < status->n_servers; i++)
        r = look_for_lost(ctrl, status->servers[i], status->up_ms, err);
    return r;
}

/* ------------------------------------------------------------------- whole -- */

int
ctrl_cards_published(struct ctrl *ctrl, const char *server, int r,
                     const struct gp_err *err)
{
    uint32_t skipped;

    if (r != -EINVAL && r != CTRL_INVALID)
        return r;
    if (gp_log_limit_ok(&ctrl->refusals, &skipped))
        gp_log_error("work",
                     "server %s is not published, give it a name of a-z, 0-9 and \"-\" "
                     "(--name): %s (%u such lines left out)",
                     server, gp_err_msg(err, r), skipped);
    return 0;
}

static int
publish(struct ctrl *ctrl, const Gpupool__Ctl__CtlStatusReply *status,
        struct gp_err *err)
{
    CLEANUP_JSON json_t *seen = json_object();
    int r = 0;

    for (size_t i = 0; !r && i < status->n_servers; i++) {
        const Gpupool__Ctl__CtlServerStatus *server = status->servers[i];

        for (size_t c = 0; !r && c < server->n_cards; c++) {
            r = put_card(ctrl, server, server->cards[c], seen, err);
            r = ctrl_cards_published(ctrl, server->server, r, err);
        }
    }
    if (!r)
        r = ctrl_dra_publish(ctrl, status, err);
    if (!r)
        r = ctrl_legacy_publish(ctrl, status, err);
    return r < 0 ? r : remove_others(ctrl, seen, err);
}

/* Sessions of lost servers are given up whatever becomes of what is published. */
int
ctrl_cards(struct ctrl *ctrl, struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    struct gp_err other = {0};
    int r = ctrl_pool_status(&ctrl->pool, false, &reply, err), lost;

    if (r < 0)
        return r;
    r = publish(ctrl, reply->status, err);
    lost = lost_servers(ctrl, reply->status, r < 0 ? &other : err);
    return r < 0 ? r : lost;
}
