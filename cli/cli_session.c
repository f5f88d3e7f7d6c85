/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_session.h"

#include "cli.h"
#include "cli_session_file.h"
#include "cli_wait.h"
#include "ctl_addresses.h"
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_size.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"
#include "ticket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the scheduler may take until the workers of a closed session are gone. */
#define CLOSE_NS (5 * GP_NS_PER_S)
#define MS_PER_S 1000u
/* Until another scheduler leads and the servers have come to it: they have three and
 * four seconds (--etcd-lease-s, --server-return-ms). */
#define CHANGE_NS (10 * GP_NS_PER_S)

/* -------------------------------------------------------------------- open -- */

/* "local-1 GPU-... (SoftGPU A86), 30 % core, 1 GiB"; of several as many as fit. */
static void
describe_slices(struct cli_session *s, const Gpupool__Ctl__CtlGrant *grant)
{
    size_t at = 0;

    for (size_t i = 0; i < grant->n_slices && at < sizeof(s->placed); i++) {
        const Gpupool__Ctl__CtlSlice *slice = grant->slices[i];
        char uuid[TICKET_UUID_TEXT] = "", memory[GP_SIZE_TEXT];

        if (slice->card_uuid.len == TICKET_UUID_SIZE)
            ticket_uuid_format(slice->card_uuid.data, uuid);
        at += (size_t)snprintf(s->placed + at, sizeof(s->placed) - at,
                               "%s%s %s (%s), %u %% core, %s", i ? "; " : "",
                               slice->server, uuid, slice->card_name, slice->core,
                               gp_size_format(slice->memory_bytes, memory));
    }
}

static int
take_grant(struct cli_session *s, const Gpupool__Ctl__CtlGrant *grant,
           struct gp_err *err)
{
    if (grant->lease_key.len != sizeof(s->lease_key) || !grant->n_tickets ||
        !grant->lease_ms)
        return gp_err_set(err, -EPROTO, "the scheduler's grant is incomplete");
    s->id = grant->session_id;
    memcpy(s->lease_key, grant->lease_key.data, sizeof(s->lease_key));
    s->lease_ms = grant->lease_ms;
    s->lease_end_ns = gp_now_ns() + grant->lease_ms * GP_NS_PER_MS;
    s->tickets_unix = grant->tickets_unix;
    gp_str_copy(s->name, sizeof(s->name), grant->session);
    describe_slices(s, grant);
    return cli_session_file_write(s->file, grant, s->bound ? s->secret : NULL, err);
}

/* Connected: ask.  *@queued: the answer was a place in the queue at least once. */
static int
ask(struct cli_session *s, const Gpupool__Ctl__CtlOpen *open, struct cli_wait *wait,
    bool *queued, Gpupool__Ctl__CtlReply **reply, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlOpen shown = *open;
    uint8_t key[GP_X25519_SIZE];
    int r = cli_ctl_prove(&s->ctl, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT, open->token,
                          err);

    if (r < 0)
        return r;
    gp_x25519_public(s->secret, key);
    shown.token = cli_ctl_shown(open->token);
    shown.client_key.data = key;
    shown.client_key.len = s->bound ? sizeof(key) : 0;
    if (wait->queue)
        cli_wait_request(wait, &shown);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = &shown;
    r = cli_ctl_call(&s->ctl, &req, CLI_DEADLINE_NS, reply, err);
    if (r < 0 || !wait->queue ||
        (*reply)->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED)
        return r;
    *queued = true;
    return cli_wait_turn(wait, &s->ctl, req.id, reply, err);
}

/* Whether the scheduler has gone, or one of several does not answer. */
static bool
is_broken(const struct cli_session *s, int r)
{
    return r == -ECONNRESET || r == -EPIPE || r == -ECONNREFUSED ||
           (r == -ETIMEDOUT && ctl_addresses_count(s->ctl.list) > 1);
}

/* Whether the pool may only be changing its leader, or the scheduler be about to start
 * again.  A request that was cut off may have been granted: such a session ends soon,
 * because nobody holds it. */
static bool
is_passing(const struct cli_session *s, int r, const Gpupool__Ctl__CtlReply *reply)
{
    if (r != -EREMOTE)
        return is_broken(s, r);
    return reply && reply->error &&
           (reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER ||
            reply->error->retry_after_ms);
}

/* Who has a place in the queue comes back to it when the scheduler was away. */
static int
open_patiently(struct cli_session *s, const char *scheduler,
               const Gpupool__Ctl__CtlOpen *open, struct cli_wait *wait,
               Gpupool__Ctl__CtlReply **reply, struct gp_err *err)
{
    uint64_t end = gp_now_ns() + CHANGE_NS;
    char why[sizeof(err->msg)];
    bool queued = false;
    int r = cli_ctl_open(&s->ctl, scheduler, err);

    if (r < 0)
        return r; /* nobody there: that is said at once */
    for (;;) {
        r = r < 0 ? r : ask(s, open, wait, &queued, reply, err);
        if (r >= 0 || r == -EINTR || (r == -EREMOTE && queued) ||
            (!queued && (!is_passing(s, r, *reply) || gp_now_ns() >= end)))
            return r;
        gp_str_copy(why, sizeof(why), gp_err_msg(err, r));
        r = queued ? cli_wait_pause(wait, why, err) : cli_wait_moment(wait, err);
        if (r < 0)
            return r;
        cli_reply_free(*reply);
        *reply = NULL;
        r = cli_ctl_open_next(&s->ctl, err);
    }
}

static void
renew_message(const struct cli_session *s, Gpupool__Ctl__CtlRenew *renew)
{
    gpupool__ctl__ctl_renew__init(renew);
    renew->session_id = s->id;
    renew->lease_key.data = (uint8_t *)s->lease_key;
    renew->lease_key.len = sizeof(s->lease_key);
    renew->hold = true;
}

/* The session is another pool's: hold it there from now on.  *@reply becomes that
 * pool's own grant. */
static int
move_to_pool(struct cli_session *s, Gpupool__Ctl__CtlReply **reply, struct gp_err *err)
{
    const Gpupool__Ctl__CtlGrant *grant = (*reply)->grant;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *renewed = NULL;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenew renew;
    int r;

    s->keys = cli_ctl_pins(grant->scheduler_keys, grant->n_scheduler_keys);
    if (grant->lease_key.len != sizeof(s->lease_key) || !s->keys.n)
        return gp_err_set(err, -EPROTO, "the scheduler's grant is incomplete");
    gp_utf8_copy(s->pool, sizeof(s->pool), grant->pool);
    s->id = grant->session_id;
    memcpy(s->lease_key, grant->lease_key.data, sizeof(s->lease_key));
    renew_message(s, &renew);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req.renew = &renew;
    cli_ctl_close(&s->ctl);
    r = cli_ctl_open_other(&s->ctl, grant->scheduler, &s->keys, err);
    if (!r)
        r = cli_ctl_call(&s->ctl, &req, CLI_DEADLINE_NS, &renewed, err);
    if (!r && renewed->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_GRANT)
        r = gp_err_set(err, -EPROTO, "the scheduler answered something else");
    if (r < 0) {
        s->id = 0; /* its lease ends; there is no way to close it */
        return gp_err_wrap(err, r == -EREMOTE ? -EPROTO : r,
                           "pool %s has room, but its scheduler does not serve this "
                           "host (--pool here leaves other pools out)",
                           s->pool);
    }
    cli_reply_free(*reply);
    *reply = TAKE_PTR(renewed);
    return 0;
}

/* Schedulers of before pools of pools know nothing of --pool. */
static int
check_pool(const Gpupool__Ctl__CtlOpen *open, const Gpupool__Ctl__CtlGrant *grant,
           struct gp_err *err)
{
    if (!*open->pool || !strcmp(open->pool, grant->pool))
        return 0;
    return gp_err_set(err, -EPROTO,
                      "the scheduler is older than this gpupool and knows no other "
                      "pools (--pool)");
}

int
cli_session_open(struct cli_session *s, const char *scheduler,
                 const Gpupool__Ctl__CtlOpen *open, bool bound, struct cli_wait *wait,
                 Gpupool__Ctl__CtlReply **ret_refusal, struct gp_err *err)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r;

    memset(s, 0, sizeof(*s));
    s->ctl.link.fd = -1;
    s->bound = bound;
    if (gp_x25519_new(s->secret) < 0)
        return gp_err_set(err, -EIO, "no random bytes");
    r = open_patiently(s, scheduler, open, wait, &reply, err);
    cli_wait_end(wait);
    if (r == -EREMOTE)
        *ret_refusal = TAKE_PTR(reply);
    if (r < 0)
        return r;
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_GRANT)
        return gp_err_set(err, -EPROTO, "the scheduler answered something else");
    r = check_pool(open, reply->grant, err);
    if (!r && *reply->grant->pool)
        r = move_to_pool(s, &reply, err);
    else if (!r && ctl_link_key(&s->ctl.link))
        s->keys =
            cli_ctl_pins(&(ProtobufCBinaryData){TLS_PUBLIC_SIZE, s->ctl.link.key}, 1);
    if (!r)
        r = cli_session_file_path(reply->grant->session, &s->file, err);
    if (!r)
        r = take_grant(s, reply->grant, err);
    return r < 0 ? r : cli_session_file_await_end(s->file, err);
}

/* -------------------------------------------------------------- keep alive -- */

static void
warn(struct cli_session *s, const char *words)
{
    if (!s->warned)
        cli_fail(0, "session %s: %s", s->name, words);
    s->warned = true;
}

void
cli_session_late(struct cli_session *s)
{
    if (gp_now_ns() > s->lease_end_ns)
        warn(s, "the scheduler has not answered for a whole lease; trying on");
}

void
cli_session_renewed(struct cli_session *s, const Gpupool__Ctl__CtlRenewedOne *one)
{
    struct gp_err err = {0};
    int r = one->grant ? take_grant(s, one->grant, &err) : 0;

    s->lease_ms = one->lease_ms;
    s->lease_end_ns = gp_now_ns() + s->lease_ms * GP_NS_PER_MS;
    if (r < 0)
        warn(s, gp_err_msg(&err, r));
    else
        s->warned = false;
}

static void
report(const struct cli_session *s, bool lost, const char *words)
{
    struct cli_session_news news = {.lost = lost, .end_ns = s->end_ns};

    if (!s->report_fd)
        return;
    gp_str_copy(news.words, sizeof(news.words), words);
    send(s->report_fd, &news, sizeof(news), MSG_NOSIGNAL);
}

void
cli_session_news(struct cli_session *s, const struct cli_session_news *news)
{
    if (news->lost) {
        s->lost = true;
        memcpy(s->lost_words, news->words, sizeof(s->lost_words));
    } else {
        s->end_ns = news->end_ns;
        memcpy(s->end_words, news->words, sizeof(s->end_words));
    }
}

/* The scheduler forgets a session that has ended; why it did was announced, or follows
 * the name, which the lines have anyway. */
static void
note_lost(struct cli_session *s, const char *words)
{
    char no_session[sizeof(s->name) + 16];
    int n = snprintf(no_session, sizeof(no_session), "no session %s: ", s->name);

    if (!strncmp(words, no_session, (size_t)n))
        words += n;
    s->lost = true;
    if (*s->end_words && gp_now_ns() >= s->end_ns)
        words = s->end_words;
    gp_str_copy(s->lost_words, sizeof(s->lost_words), words);
}

void
cli_session_lost(struct cli_session *s, const char *words)
{
    note_lost(s, words);
    warn(s, s->lost_words);
    report(s, true, s->lost_words);
}

/* The scheduler says that the session is going to end: the program's user should know
 * before it happens. */
void
cli_session_notice(struct cli_session *s, const Gpupool__Ctl__CtlSessionNotice *notice)
{
    if (notice->session_id != s->id)
        return;
    gp_utf8_copy(s->end_words, sizeof(s->end_words),
                 notice->ends_in_ms ? notice->words : "");
    s->end_ns = gp_now_ns() + notice->ends_in_ms * GP_NS_PER_MS;
    if (notice->ends_in_ms >= MS_PER_S)
        cli_fail(0, "session %s ends in %u s: %s", s->name,
                 (notice->ends_in_ms + MS_PER_S - 1) / MS_PER_S, notice->words);
    else if (notice->ends_in_ms)
        cli_fail(0, "session %s ends now: %s", s->name, notice->words);
    else
        cli_fail(0, "session %s goes on after all: %s", s->name, notice->words);
    report(s, false, s->end_words);
}

/* ------------------------------------------------------------------- close -- */

/* The scheduler that has gone over it may be followed by another one, to which the
 * session would be one that runs. */
static int
ask_to_close(struct cli_session *s, Gpupool__Ctl__CtlRequest *req,
             Gpupool__Ctl__CtlReply **reply, struct gp_err *err)
{
    unsigned n = ctl_addresses_count(s->ctl.list);
    int r = cli_ctl_call(&s->ctl, req, CLOSE_NS, reply, err);

    while (is_broken(s, r) && n-- > 1) {
        r = cli_ctl_open_next(&s->ctl, err);
        if (r < 0)
            break;
        r = cli_ctl_call(&s->ctl, req, CLOSE_NS, reply, err);
    }
    return r;
}

/* On the connection that opened the session when it is there yet, else on a new one. */
static void
send_close(struct cli_session *s)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose close = GPUPOOL__CTL__CTL_CLOSE__INIT;
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    char address[GP_NET_NAME_MAX];
    struct gp_err err = {0};
    uint32_t next_id = s->ctl.next_id;
    int r = 0;

    gp_str_copy(address, sizeof(address), s->ctl.list);
    if (s->ctl.link.fd < 0)
        r = *s->pool ? cli_ctl_open_other(&s->ctl, address, &s->keys, &err)
                     : cli_ctl_open(&s->ctl, address, &err);
    if (r < 0) {
        cli_fail(0, "session %s: not closed, its lease will end: %s", s->name, err.msg);
        return;
    }
    s->ctl.next_id = next_id;
    close.session_id = s->id;
    close.lease_key.data = s->lease_key;
    close.lease_key.len = sizeof(s->lease_key);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &close;
    r = ask_to_close(s, &req, &reply, &err);
    if (r == -EREMOTE && *s->end_words && gp_now_ns() >= s->end_ns)
        note_lost(s, s->end_words); /* it had ended before its program did */
    else if (r < 0 && r != -EREMOTE)
        cli_fail(0, "session %s: not closed, its lease will end: %s", s->name,
                 gp_err_msg(&err, r));
}

/* The program knows best: it was told by its server. */
static void
say_why_lost(struct cli_session *s, int status)
{
    CLEANUP_FREE char *line =
        s->file ? cli_session_file_take_end(s->file, status != 0, &s->found) : NULL;

    if (line && s->lost && !strstr(line, s->lost_words))
        cli_fail(0, "run: %s; session %s was ended: %s", line, s->name, s->lost_words);
    else if (line)
        cli_fail(0, "run: %s", line);
    else if (s->lost)
        cli_fail(0, "run: session %s was ended: %s", s->name, s->lost_words);
}

void
cli_session_close(struct cli_session *s, int status)
{
    if (s->id && !s->lost)
        send_close(s);
    cli_ctl_close(&s->ctl);
    say_why_lost(s, status);
    if (s->file)
        unlink(s->file);
    free(s->file);
    s->file = NULL;
    explicit_bzero(s->lease_key, sizeof(s->lease_key));
    explicit_bzero(s->secret, sizeof(s->secret));
}
