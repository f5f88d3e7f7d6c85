/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_attach.h"

#include "attach.pb-c.h"
#include "drv.h"
#include "gp_err.h"
#include "gp_msg.h"
#include "gp_time.h"
#include "wire_format.h"
#include "wrk.h"
#include "wrk_changes.h"
#include "wrk_link.h"
#include "wrk_output.h"
#include "wrk_transfer.h"
#include "xport.h"

#include <errno.h>
#include <string.h>

#define REPLY_MAX (1u << 20)
#define SEND_MS 5000
/* Payloads up to this size travel in the frame: one more copy is then cheaper than
 * a second read. */
#define INLINE_MAX (64u * 1024)

/* More calls than there are. */
#define MISSING_MAX 1024u

/* The arrays that the message points to. */
/* "land": asynchronous copies down need not be waited for (WIRE_F_D2H_ASYNC).
 * "pinned": page-locked memory can be shared (gp_pin).
 * "unified": it can have one address at both ends (gp_window).
 * "link-images": what a linker is given may be named like an image (wire_image.h).
 * "stripes-again": further connections may be made for each link (gp_stripes).
 * "control-greeted": there may be a control connection (wrk_control.h), over which the
 * worker greets and says that functions are due.
 * "elapsed": a wait may ask for the time between two events (gp_wait_elapsed).
 * "shapes": launches may name what they have in common (gp_launch_shape).
 * "received": a frame may acknowledge (gp_received).
 * "pieces": a client may say how long pieces of payloads are to be (gp_pieces).
 * "graph-lists": what a graph lists may be asked for in parts (gp_graph_list).
 * "graph-nodes": a call may name nodes ahead of it (gp_graph_nodes).
 * "uploads-complete": the reply to a blocking copy up comes when its stream is done.
 * And what not all drivers do:
 * "runs": the driver tells what its cards change in shared memory (gp_runs_down).
 * "digests": the worker finds out by digests, and has to be told what they are not good
 * for any more (WIRE_RUN_STALE).
 * "checks": it looks for what is wrong in kernels (gp_check_end). */
static const char *const capabilities[] = {
    "land",          "pinned",      "unified",         "link-images",     "endings",
    "stripes-again", "elapsed",     "control-greeted", "shapes",          "received",
    "graph-lists",   "graph-nodes", "pieces",          "uploads-complete"};
#define OF_DRIVERS 2

struct reply {
    Gpupool__AttachReply msg;
    const char *capabilities[ARRAY_SIZE(capabilities) + OF_DRIVERS];
    Gpupool__AttachDevice devices[TICKET_SLICES_MAX];
    Gpupool__AttachTransport transport;
    Gpupool__AttachTransport *transports[1];
    char *refusals[1];
    Gpupool__AttachDevice *device_ptrs[TICKET_SLICES_MAX];
    uint32_t missing[MISSING_MAX];
    protobuf_c_boolean ok[TICKET_SLICES_MAX][WRK_ATTRIBUTES];
    protobuf_c_boolean peer[TICKET_SLICES_MAX][TICKET_SLICES_MAX];
};

static void
fill_facts(Gpupool__AttachDevice *d, const struct wrk_facts *facts)
{
    d->stream_priority_least = facts->priority_least;
    d->stream_priority_greatest = facts->priority_greatest;
    d->ctx_api_version = facts->api_version;
    d->limits = (uint64_t *)(uintptr_t)facts->limits;
    d->n_limits = WRK_LIMITS;
}

static void
fill_device(struct reply *reply, struct wrk *w, uint32_t i)
{
    struct wrk_card *card = &w->priv->cards.card[i];
    const struct wrk_conf *conf = &w->priv->conf;
    Gpupool__AttachDevice *d = &reply->devices[i];

    gpupool__attach_device__init(d);
    d->name = card->name;
    d->uuid.data = (uint8_t *)card->uuid.bytes;
    d->uuid.len = sizeof(card->uuid.bytes);
    d->pci_bus_id = card->pci;
    d->total_mem = conf->slices[i].memory;
    d->attributes = card->attributes;
    d->n_attributes = WRK_ATTRIBUTES;
    for (unsigned a = 0; a < WRK_ATTRIBUTES; a++)
        reply->ok[i][a] = card->attribute_ok[a];
    d->attribute_ok = reply->ok[i];
    d->n_attribute_ok = WRK_ATTRIBUTES;
    if (card->has_luid) {
        d->luid.data = (uint8_t *)card->luid;
        d->luid.len = sizeof(card->luid);
        d->luid_node_mask = card->luid_mask;
    }
    d->core_percent = conf->slices[i].core;
    for (uint32_t j = 0; j < conf->n_slices; j++)
        reply->peer[i][j] = card->peer[j];
    d->can_access_peer = reply->peer[i];
    d->n_can_access_peer = conf->n_slices;
    fill_facts(d, &conf->facts[i]);
    reply->device_ptrs[i] = d;
}

static void
fill_transports(struct reply *reply, const struct wrk_link *link)
{
    if (link->offer) {
        gpupool__attach_transport__init(&reply->transport);
        reply->transport.name = (char *)(uintptr_t)link->offer;
        reply->transport.parameters.data = (uint8_t *)(uintptr_t)link->parameters;
        reply->transport.parameters.len = link->parameters_len;
        reply->transports[0] = &reply->transport;
        reply->msg.transports = reply->transports;
        reply->msg.n_transports = 1;
    }
    if (link->refusal[0]) {
        reply->refusals[0] = (char *)(uintptr_t)link->refusal;
        reply->msg.refusals = reply->refusals;
        reply->msg.n_refusals = 1;
    }
}

static void
fill_capabilities(struct reply *reply)
{
    size_t n = ARRAY_SIZE(capabilities);

    memcpy(reply->capabilities, capabilities, sizeof(capabilities));
    reply->capabilities[n++] = wrk_changes_are_told() ? "runs" : "digests";
    if (wrk_output_is_checked())
        reply->capabilities[n++] = "checks";
    reply->msg.capabilities = (char **)(uintptr_t)reply->capabilities;
    reply->msg.n_capabilities = n;
}

static int
send_reply(const Gpupool__AttachReply *msg, const struct wrk_link *link, int fd,
           struct gp_err *err)
{
    size_t size = gpupool__attach_reply__get_packed_size(msg);
    CLEANUP_FREE uint8_t *buf = NULL;

    if (size > REPLY_MAX)
        return gp_err_set(err, -EMSGSIZE, "the attach reply has %zu bytes", size);
    buf = malloc(size + 1);
    if (!buf)
        return gp_err_set(err, -ENOMEM, "no memory for the attach reply");
    gpupool__attach_reply__pack(msg, buf);
    return gp_msg_send_over(link->wire, fd, buf, size,
                            gp_now_ns() + SEND_MS * GP_NS_PER_MS, err);
}

int
wrk_attach_reply(struct wrk *w, const struct wrk_link *link, int fd, struct gp_err *err)
{
    struct wrk_conf *conf = &w->priv->conf;
    CLEANUP_FREE struct reply *reply = calloc(1, sizeof(*reply));

    if (!reply)
        return gp_err_set(err, -ENOMEM, "no memory for the attach reply");
    gpupool__attach_reply__init(&reply->msg);
    reply->msg.status = GPUPOOL__ATTACH_STATUS__ATTACH_OK;
    reply->msg.wire_minor = WIRE_MINOR;
    reply->msg.session = conf->session;
    reply->msg.attachment = conf->attachment;
    reply->msg.server_version = (char *)(uintptr_t)GPUPOOL_VERSION;
    reply->msg.driver_version = (uint32_t)w->priv->cards.driver_version;
    reply->msg.driver = conf->driver;
    for (uint32_t i = 0; i < conf->n_slices; i++)
        fill_device(reply, w, i);
    reply->msg.devices = reply->device_ptrs;
    reply->msg.n_devices = conf->n_slices;
    fill_transports(reply, link);
    if (conf->links > 1 && !conf->proven) {
        reply->msg.peer_cookie.data = conf->peer_cookie;
        reply->msg.peer_cookie.len = sizeof(conf->peer_cookie);
    }
    reply->msg.missing_calls = reply->missing;
    reply->msg.n_missing_calls = gp_min(
        drv_missing(w->drv, w->priv->cards.driver_version, reply->missing, MISSING_MAX),
        MISSING_MAX);
    reply->msg.frame_max = WIRE_FRAME_MAX;
    reply->msg.inline_max = INLINE_MAX;
    reply->msg.bulk_slot_size = WRK_STAGING_SIZE;
    reply->msg.payloads = link->payloads;
    if (link->payloads) {
        reply->msg.lane_cookie.data = conf->lane_cookie;
        reply->msg.lane_cookie.len = conf->proven ? 0 : sizeof(conf->lane_cookie);
        if (!link->offer && (!conf->resume_s || conf->resume_stripes))
            reply->msg.lanes_max = XPORT_STRIPES_MAX;
    }
    reply->msg.resume_s = conf->resume_s;
    reply->msg.resume_rdma = conf->resume_s && conf->resume_rdma && link->rdma.listener;
    if (!conf->proven) {
        reply->msg.resume_token.data = conf->resume_key;
        reply->msg.resume_token.len = sizeof(conf->resume_key);
    }
    if (conf->images) {
        reply->msg.image_nonce.data = conf->image_nonce;
        reply->msg.image_nonce.len = sizeof(conf->image_nonce);
    }
    fill_capabilities(reply);
    return send_reply(&reply->msg, link, fd, err);
}

void
wrk_attach_refuse(const struct wrk_conf *conf, const struct wrk_link *link, int fd,
                  const char *words)
{
    Gpupool__AttachReply msg = GPUPOOL__ATTACH_REPLY__INIT;

    msg.status = GPUPOOL__ATTACH_STATUS__ATTACH_NO_DRIVER;
    msg.message = (char *)(uintptr_t)words;
    msg.session = (char *)(uintptr_t)conf->session;
    msg.attachment = (char *)(uintptr_t)conf->attachment;
    msg.server_version = (char *)(uintptr_t)GPUPOOL_VERSION;
    send_reply(&msg, link, fd, NULL);
}
