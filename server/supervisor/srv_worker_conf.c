/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_worker_conf.h"

#include "attach_proof.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "srv.h"
#include "srv_inventory.h"
#include "srv_jail.h"
#include "srv_keeper.h"
#include "srv_resume.h"
#include "srv_session.h"
#include "wrk_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A real driver understands UUIDs, which no setting of our own can shift; softgpu takes
 * indexes among all of its cards. */
void
srv_worker_visible_cards(const struct srv *srv, const struct srv_session *s, char *text,
                         size_t size)
{
    const char *outer = getenv("SOFTGPU_VISIBLE");
    bool soft = strcmp(srv->conf.driver, "softgpu") == 0 ||
                strcmp(srv->conf.driver, "null") == 0 ||
                strstr(srv->conf.driver, "softgpu") != NULL;
    size_t at = 0;

    if (!outer)
        outer = getenv("CUDA_VISIBLE_DEVICES");
    for (uint32_t i = 0; i < s->claims.n_slices && at < size; i++) {
        const uint8_t *uuid = s->claims.slices[i].card_uuid;
        uint32_t index = srv_inventory_find(srv->inventory, uuid)->index;
        char name[TICKET_UUID_TEXT];
        const char *p = outer;

        ticket_uuid_format(uuid, name);
        if (soft) {
            /* Our own list is narrowed already: index counts within it. */
            for (uint32_t skip = index; p && skip; skip--)
                p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL;
            snprintf(name, sizeof(name), "%lu", p ? strtoul(p, NULL, 10) : index);
        }
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? "," : "", name);
    }
}

/* A software card's memory becomes a file when a program shares it. */
static uint64_t
file_bytes(const struct srv_worker *w)
{
    uint64_t bytes = w->srv->conf.worker_bytes;

    for (uint32_t i = 0;
         bytes && srv_jail_soft(w->srv->jail) && i < w->session->claims.n_slices; i++)
        bytes += w->session->claims.slices[i].memory;
    return bytes;
}

static void
conf_jail(const struct srv_worker *w, struct wrk_conf *conf)
{
    const struct srv_cell *cell = &w->session->cell;

    srv_jail_user(w->srv->jail, cell, conf->user);
    gp_str_copy(conf->exports, sizeof(conf->exports), cell->exports);
    gp_str_copy(conf->readable, sizeof(conf->readable), w->srv->conf.worker_read);
    conf->own_user = cell->uid != 0;
    conf->soft = srv_jail_soft(w->srv->jail);
    conf->memory = w->srv->conf.worker_bytes;
    conf->file_bytes = file_bytes(w);
    conf->sandbox_log = strcmp(w->srv->conf.worker_sandbox, "log") == 0;
}

uint32_t
srv_worker_resume_s(const struct srv_worker *w, const struct srv_worker_client *client)
{
    return gp_min(client->resume_s, w->srv->conf.resume_s);
}

/* What the worker shows to the client, or wants to see from it. */
static void
conf_secrets(const struct srv_worker *w, const struct srv_worker_client *client,
             struct wrk_conf *conf)
{
    uint8_t cookie[ATTACH_COOKIE_SIZE];

    memcpy(conf->lane_cookie, w->lane_cookies[0], sizeof(conf->lane_cookie));
    memcpy(conf->peer_cookie, w->peer_cookies[0], sizeof(conf->peer_cookie));
    memcpy(conf->image_nonce, w->image_nonce, sizeof(conf->image_nonce));
    conf->proven = client->key != NULL;
    if (conf->proven) {
        attach_cookie_make(client->key, ATTACH_COOKIE_RDMA, 0, cookie);
        memcpy(conf->rdma_cookie, cookie, sizeof(conf->rdma_cookie));
    } else {
        memcpy(conf->resume_key, srv_resume_key(w), sizeof(conf->resume_key));
    }
}

static void
conf_cards(const struct srv_worker *w, struct wrk_conf *conf)
{
    const struct ticket_claims *claims = &w->session->claims;

    conf->n_slices = claims->n_slices;
    memcpy(conf->slices, claims->slices, sizeof(conf->slices));
    for (uint32_t i = 0; i < conf->n_slices; i++) {
        const struct srv_card *card =
            srv_inventory_find(w->srv->inventory, conf->slices[i].card_uuid);

        conf->facts[i] = card->facts;
        conf->card_sms[i] = card->sms;
    }
}

/* A memory file of it that nobody can change any more. */
static int
conf_file(const struct wrk_conf *conf, int *ret_fd, struct gp_err *err)
{
    CLEANUP_FD int fd = memfd_create("gpupool-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || gp_file_write_all(fd, conf, sizeof(*conf)) < 0)
        return gp_err_set(err, -ENOMEM, "configuration of the worker: %s",
                          strerror(errno));
    lseek(fd, 0, SEEK_SET);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int
srv_worker_conf(const struct srv_worker *w, const struct srv_worker_client *client,
                int *ret_fd, struct gp_err *err)
{
    const struct srv_session *s = w->session;
    struct wrk_conf conf = {
        .magic = WRK_CONF_MAGIC,
        .tell_started = 1,
        .size = sizeof(conf),
        .parent_pid = (uint32_t)srv_keeper_pid(w->srv->keeper),
        .adopt_window_s = w->srv->keeper ? w->srv->conf.adopt_window_s : 0,
        .slot = w->slot,
        .session_id = s->claims.session_id,
        .policy = s->claims.policy,
        .wire_minor = client->wire_minor,
        .cuda_version = client->cuda_version,
        .shm = client->shm,
        .wakefds = client->wakefds,
        .spatial = s->claims.spatial,
        .offline = s->claims.offline,
        .link_timeout_s = w->srv->conf.link_timeout_s,
        .work_limit_s = s->claims.offline ? w->srv->conf.work_limit_offline_s
                                          : w->srv->conf.work_limit_s,
        .rdma = client->rdma,
        .links = client->links,
        .link = client->link,
        .device_base = client->device_base,
        .payloads = client->payloads,
        .resume_s = srv_worker_resume_s(w, client),
        .resume_stripes = client->resume_stripes,
        .resume_rdma = client->resume_rdma,
        .control = client->control,
        .rereads = client->rereads,
        .images = w->srv->image_bytes != 0,
        .tls = *client->tls,
    };

    gp_str_copy(conf.driver, sizeof(conf.driver), w->srv->conf.driver);
    conf_jail(w, &conf);
    gp_str_copy(conf.session, sizeof(conf.session), s->claims.session);
    gp_str_copy(conf.attachment, sizeof(conf.attachment), w->name);
    gp_str_copy(conf.rdma_at, sizeof(conf.rdma_at), w->srv->conf.rdma);
    gp_str_copy(conf.gpudirect, sizeof(conf.gpudirect), w->srv->conf.gpudirect);
    conf.pageable = strcmp(w->srv->conf.pageable, "allow") == 0;
    gp_str_copy(conf.program, sizeof(conf.program), client->program);
    conf_secrets(w, client, &conf);
    conf_cards(w, &conf);
    return conf_file(&conf, ret_fd, err);
}
