/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_status.h"

#include "gp_time.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_rows.h"
#include "ticket_key.h"

static void
reply_status(struct sched_conn *conn, uint32_t id, bool sessions)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlStatusReply status = GPUPOOL__CTL__CTL_STATUS_REPLY__INIT;
    const struct sched *sched = conn->sched;
    const struct sched_rows_room room = {
        .servers = sched->pool->n_servers,
        .cards = sched->pool->n_cards,
        .sessions = sessions ? sched->sessions.by_id.count : 0,
        .slices = sessions ? sched->pool->sums.slices : 0,
    };
    const struct sched_session *s = NULL;
    uint64_t now = gp_now_ns();
    CLEANUP(sched_rows_fini) struct sched_rows rows;

    if (!sched_rows_init(&rows, &room)) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                          "out of memory", NULL);
        return;
    }
    for (const struct sched_server *server = sched->pool->servers; server;
         server = server->next)
        sched_rows_server(&rows, server, 0, CTL_SERVER_CARDS_MAX, now);
    while (sessions && (s = sched_sessions_next(&sched->sessions, s)))
        sched_rows_session(&rows, s, now);
    status.version = (char *)GPUPOOL_VERSION;
    status.up_ms = (now - sched->started_ns) / GP_NS_PER_MS;
    status.placement = (Gpupool__Ctl__CtlPlacement)sched->config.placement;
    status.servers = rows.server_list;
    status.n_servers = rows.n_servers;
    status.sessions = rows.session_list;
    status.n_sessions = rows.n_sessions;
    status.heartbeat_ms = sched->config.heartbeat_ms;
    status.lease_ms = sched->config.lease_ms;
    status.scheduler_key_id = (char *)ticket_key_id(sched->key);
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_STATUS;
    reply.status = &status;
    sched_commit_everything(conn->sched); /* nothing that a crash takes back */
    sched_conn_reply(conn, &reply);
}

void
sched_status_reply(struct sched_conn *conn, uint32_t id)
{
    reply_status(conn, id, true);
}

void
sched_status_reply_servers(struct sched_conn *conn, uint32_t id)
{
    reply_status(conn, id, false);
}
