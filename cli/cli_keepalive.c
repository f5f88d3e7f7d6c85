/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_keepalive.h"

#include "cli_ctl.h"
#include "cli_session.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Between two attempts to reach an agent that another `gpupool run` is becoming. */
#define AGAIN_NS (50 * GP_NS_PER_MS)
/* An agent renews as soon as it is asked.  After this, and a quarter of a lease at
 * most, there is time for a connection of one's own before the scheduler's grace (six
 * seconds) and the lease are over. */
#define JOIN_NS (2 * GP_NS_PER_S)

static void on_timer(struct gp_loop_timer *timer);
static void look(struct cli_keepalive *keep);

static void
arm(struct cli_keepalive *keep, uint64_t after_ns)
{
    gp_loop_timer_set(keep->loop, &keep->timer, gp_now_ns() + after_ns, on_timer);
}

static uint64_t
join_ns(const struct cli_keepalive *keep)
{
    return gp_min(keep->session->lease_ms * GP_NS_PER_MS / 4, (uint64_t)JOIN_NS);
}

static bool
is_serving(const struct cli_keepalive *keep)
{
    return keep->agent.listener.src.loop;
}

/* ------------------------------------------------------------------- alone -- */

/* Hold it over a connection of its own, from @after_ns on, unless it does already. */
static void
be_alone(struct cli_keepalive *keep, uint64_t after_ns)
{
    if (keep->session->lost)
        return;
    if (!keep->lease.renewer)
        cli_renewer_add(&keep->renewer, &keep->lease, after_ns);
}

static void
look_for_agent(struct cli_keepalive *keep)
{
    if (!keep->shares || keep->connected || is_serving(keep) || keep->session->lost ||
        gp_now_ns() < keep->not_before_ns)
        return;
    keep->patience_ns = gp_now_ns() + join_ns(keep);
    look(keep);
}

static void
on_lease_renewed(struct cli_lease *lease, const Gpupool__Ctl__CtlRenewedOne *one)
{
    struct cli_keepalive *keep = container_of(lease, struct cli_keepalive, lease);

    cli_session_renewed(keep->session, one);
    keep->shares &= !keep->renewer.single;
    look_for_agent(keep);
}

static void
on_lease_lost(struct cli_lease *lease, const char *words)
{
    struct cli_keepalive *keep = container_of(lease, struct cli_keepalive, lease);

    cli_session_lost(keep->session, words);
}

static void
on_lease_notice(struct cli_lease *lease, const Gpupool__Ctl__CtlSessionNotice *notice)
{
    cli_session_notice(container_of(lease, struct cli_keepalive, lease)->session,
                       notice);
}

static void
on_trouble(struct cli_renewer *renewer)
{
    cli_session_late(container_of(renewer, struct cli_keepalive, renewer)->session);
}

/* ------------------------------------------------------------------ joined -- */

static void
leave(struct cli_keepalive *keep)
{
    if (keep->connected)
        gp_msg_conn_fini(&keep->conn);
    keep->connected = keep->joined = false;
    gp_loop_timer_del(&keep->timer);
}

/* The agent may hold it, and gives it up: hold it over the own connection.  Agents are
 * looked for again with the next renewal that is not about that. */
static void
be_alone_again(struct cli_keepalive *keep)
{
    leave(keep);
    keep->not_before_ns = gp_now_ns() + keep->session->lease_ms * GP_NS_PER_MS / 2;
    be_alone(keep, 0);
    if (keep->lease.renewer)
        cli_renewer_take_back(&keep->lease);
}

/* The agent is gone.  Look for another; should that take too long, there is the own
 * connection. */
static void
agent_gone(struct cli_keepalive *keep)
{
    if (!keep->joined) {
        be_alone_again(keep);
        return;
    }
    leave(keep);
    be_alone(keep, join_ns(keep));
    look_for_agent(keep);
}

/* It is there and does nothing, so others would do no better to look for it. */
static void
agent_silent(struct cli_keepalive *keep)
{
    be_alone_again(keep);
}

/* While joined: so long after a renewal the next one is overdue, and there is time for
 * one's own. */
static uint64_t
overdue_ns(const struct cli_keepalive *keep)
{
    return keep->session->lease_ms * GP_NS_PER_MS * 3 / 4;
}

static void
on_renewed(struct cli_keepalive *keep, const Gpupool__Ctl__CtlRenewed *msg)
{
    const Gpupool__Ctl__CtlRenewedOne *one = msg->n_sessions ? msg->sessions[0] : NULL;

    if (!one || one->session_id != keep->lease.id || !one->lease_ms) {
        agent_gone(keep);
        return;
    }
    if (!keep->joined) { /* the session is held over the agent's connection now */
        keep->joined = true;
        cli_renewer_hang_up(&keep->renewer);
    }
    if (msg->n_scheduler_keys) /* which it was told over TLS */
        keep->renewer.keys = cli_ctl_pins(msg->scheduler_keys, msg->n_scheduler_keys);
    if (one->grant)
        keep->lease.tickets_unix = one->grant->tickets_unix;
    cli_session_renewed(keep->session, one);
    arm(keep, overdue_ns(keep));
}

static void
on_msg(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct cli_keepalive *keep = container_of(conn, struct cli_keepalive, conn);
    CLEANUP(cli_reply_freep)
    Gpupool__Ctl__CtlReply *reply = cli_reply_unpack(data, len);

    if (!reply) {
        agent_gone(keep);
    } else if (reply->error) {
        leave(keep);
        cli_renewer_remove(&keep->lease);
        cli_session_lost(keep->session, reply->error->words);
    } else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE) {
        cli_session_notice(keep->session, reply->session_notice);
    } else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_RENEWED) {
        on_renewed(keep, reply->renewed);
    }
}

static void
on_close(struct gp_msg_conn *conn, int code)
{
    (void)code;
    agent_gone(container_of(conn, struct cli_keepalive, conn));
}

/* -errno: nobody is there. */
static int
join(struct cli_keepalive *keep)
{
    uint8_t bytes[CLI_AGENT_MSG_MAX];
    int fd, r = gp_net_connect(keep->address, 0, 0, false, &fd, NULL);

    if (r < 0)
        return r;
    r = cli_agent_is_own(fd) ? 0 : -EPERM;
    if (!r)
        r = gp_msg_conn_init(&keep->conn, keep->loop, fd, CTL_REPLY_MAX,
                             sizeof(bytes) * 2, on_msg, on_close);
    if (r < 0) {
        close(fd);
        return r;
    }
    keep->connected = true;
    if (gp_msg_conn_send(&keep->conn, bytes, cli_agent_hello(&keep->lease, bytes)) <
        0) {
        leave(keep);
        return -EPIPE;
    }
    cli_renewer_remove(&keep->lease); /* the last to renew it must be the agent */
    arm(keep, join_ns(keep));
    return 0;
}

/* ----------------------------------------------------------------- serving -- */

/* Join the agent, or become it. */
static void
look(struct cli_keepalive *keep)
{
    int r;

    if (keep->renewer.request) { /* the answer comes first */
        arm(keep, AGAIN_NS);
        return;
    }
    r = join(keep);
    if (!r || r == -EPERM)
        return;
    r = cli_agent_start(&keep->agent, keep->address, &keep->renewer, keep->loop);
    if (!r) {
        be_alone(keep, 0);
        if (!keep->renewer.connected)
            cli_renewer_hurry(&keep->lease);
    } else if ((r == -EBUSY || r == -EADDRINUSE) && gp_now_ns() < keep->patience_ns) {
        arm(keep, AGAIN_NS);
    }
}

static void
on_timer(struct gp_loop_timer *timer)
{
    struct cli_keepalive *keep = container_of(timer, struct cli_keepalive, timer);

    if (keep->connected)
        agent_silent(keep);
    else
        look(keep);
}

/* -------------------------------------------------------------- start, stop -- */

void
cli_keepalive_start(struct cli_keepalive *keep, struct cli_session *s,
                    struct gp_loop *loop, bool shares)
{
    uint64_t left = s->lease_ms * GP_NS_PER_MS / 2;

    memset(keep, 0, sizeof(*keep));
    keep->session = s;
    keep->loop = loop;
    keep->lease = (struct cli_lease){.id = s->id,
                                     .tickets_unix = s->tickets_unix,
                                     .lease_ms = s->lease_ms,
                                     .on_renewed = on_lease_renewed,
                                     .on_lost = on_lease_lost,
                                     .on_notice = on_lease_notice};
    memcpy(keep->lease.lease_key, s->lease_key, sizeof(s->lease_key));
    cli_renewer_init(&keep->renewer, loop, s->ctl.list, s->ctl.address, &s->keys);
    keep->renewer.on_trouble = on_trouble;
    keep->renewer.single = !s->tickets_unix;
    keep->shares = shares && s->tickets_unix &&
                   !cli_agent_address(s->ctl.list, s->keys.n ? s->keys.keys[0] : NULL,
                                      keep->address, sizeof(keep->address));
    if (s->ctl.link.fd < 0 || cli_renewer_use(&keep->renewer, &s->ctl.link) < 0)
        left = keep->shares ? join_ns(keep) : 0;
    be_alone(keep, left);
    look_for_agent(keep);
}

void
cli_keepalive_stop(struct cli_keepalive *keep, bool close)
{
    uint8_t bytes[CLI_CLOSE_MAX];

    if (!keep->loop)
        return;
    if (close && keep->joined) {
        gp_msg_conn_send(&keep->conn, bytes,
                         cli_close_message(&keep->lease, 2, false, bytes));
    } else if (close) {
        be_alone(keep, 0); /* while it is joining its renewer does not have it */
        cli_renewer_close(&keep->lease, false);
    }
    leave(keep);
    cli_agent_stop(&keep->agent);
    cli_renewer_fini(&keep->renewer);
    explicit_bzero(keep->lease.lease_key, sizeof(keep->lease.lease_key));
    keep->loop = NULL;
}
