/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_ctl.h"

#include "cli.h"
#include "cli_folder.h"
#include "cli_pool.h"
#include "ctl_addresses.h"
#include "ctl_call.h"
#include "ctl_limits.h"
#include "ctl_prove.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_msg.h"
#include "gp_str.h"
#include "gp_time.h"
#include "tls_policy.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

int
cli_scheduler_address(const char *option, char ret_address[GP_NET_NAME_MAX],
                      struct gp_err *err)
{
    struct cli_pool pool;
    int r;

    if (option) {
        if (!gp_str_copy(ret_address, GP_NET_NAME_MAX, option))
            return gp_err_set(err, -EINVAL, "the scheduler's address is too long");
        return 0;
    }
    r = cli_pool_read(&pool, err);
    if (r == -ENOENT || (!r && !pool.scheduler[0]))
        return gp_err_set(err, -ENOENT,
                          "no pool: start one here with `gpupool up`, or name a "
                          "scheduler with --scheduler HOST:PORT or GPUPOOL_SCHEDULER");
    if (r < 0)
        return r;
    gp_str_copy(ret_address, GP_NET_NAME_MAX, pool.scheduler);
    return 0;
}

/* Is the scheduler that is meant the one of the local pool? */
static bool
is_local_pool(const char *option, struct cli_pool *ret_pool)
{
    return cli_pool_read(ret_pool, NULL) == 0 && ret_pool->scheduler[0] &&
           (!option || !strcmp(option, ret_pool->scheduler) ||
            !strcmp(option, ret_pool->local));
}

int
cli_order_address(const char *option, char ret_address[GP_NET_NAME_MAX],
                  struct gp_err *err)
{
    struct cli_pool pool;

    if (!is_local_pool(option, &pool) || !pool.local[0])
        return cli_scheduler_address(option, ret_address, err);
    gp_str_copy(ret_address, GP_NET_NAME_MAX, pool.local);
    return 0;
}

static int
read_token(const char *path, char **ret_token, struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;
    size_t len;
    int r = gp_file_read(path, CTL_TOKEN_MAX, &text, &len, err);

    if (r < 0)
        return r;
    text[strcspn(text, "\r\n")] = 0;
    if (!*text || *text == '#')
        return gp_err_set(err, -EINVAL, "%s: its first line is no token", path);
    *ret_token = TAKE_PTR(text);
    return 0;
}

int
cli_token(const char *path, const char *scheduler, const char *name, char **ret_token,
          struct gp_err *err)
{
    CLEANUP_FREE char *folder = NULL, *own = NULL;
    struct cli_pool pool;
    int r;

    if (path && *path)
        return read_token(path, ret_token, err);
    if (is_local_pool(scheduler, &pool)) {
        r = cli_folder_file("pool.d", &folder, err);
        if (r < 0)
            return r;
        own = gp_str_printf("%s/%s", folder, name);
        if (!own)
            return -ENOMEM;
        if (!access(own, F_OK))
            return read_token(own, ret_token, err);
    }
    *ret_token = strdup("");
    return *ret_token ? 0 : -ENOMEM;
}

/* What is left for the others when one of several does not answer. */
#define CONNECT_NS (GP_NS_PER_S)
/* Between two questions for the leader while there is none. */
#define LEADER_US 100000

void
cli_ctl_next(struct cli_ctl *ctl)
{
    ctl_addresses_nth(ctl->list, ++ctl->at, ctl->address, sizeof(ctl->address));
}

int
cli_ctl_tls(const struct tls_api **ret, struct gp_err *err)
{
    enum tls_policy policy;
    int r = tls_policy_parse(getenv(TLS_POLICY_ENV), TLS_POLICY_ENV, &policy, err);

    if (r == 0)
        *ret = policy == TLS_OFF ? NULL : tls_linked();
    return r;
}

/* To ctl->address, or to the first of the others that answers. */
static int
connect_any(struct cli_ctl *ctl, struct gp_err *err)
{
    unsigned n = ctl_addresses_count(ctl->list);
    uint64_t limit = n > 1 ? CONNECT_NS : CLI_DEADLINE_NS;
    struct ctl_pins pins;
    const struct tls_api *tls = NULL;
    int r = cli_ctl_tls(&tls, err);

    if (r == 0 && ctl->pins)
        pins = *ctl->pins;
    else if (r == 0)
        r = ctl_link_pins(&pins, err);
    if (r < 0)
        return r;
    r = -ENOTCONN;
    for (unsigned i = 0; r < 0 && i <= n; i++) {
        r = ctl_link_open(&ctl->link, ctl->address, tls, &pins, gp_now_ns() + limit,
                          true, err);
        if (r < 0 && n == 1)
            break;
        if (r < 0)
            cli_ctl_next(ctl);
    }
    return r < 0 ? gp_err_wrap(err, r, "scheduler not reachable") : 0;
}

static void
begin(struct cli_ctl *ctl, const struct ctl_pins *pins)
{
    ctl->link = (struct ctl_link){.fd = -1};
    ctl->next_id = 1;
    ctl->at = 0;
    ctl->token = NULL;
    ctl->pins = pins;
}

int
cli_ctl_open_other(struct cli_ctl *ctl, const char *addresses,
                   const struct ctl_pins *pins, struct gp_err *err)
{
    begin(ctl, pins);
    if (!gp_str_copy(ctl->list, sizeof(ctl->list), addresses))
        return gp_err_set(err, -EPROTO, "the other pool's addresses are too long");
    ctl_addresses_nth(ctl->list, 0, ctl->address, sizeof(ctl->address));
    return connect_any(ctl, err);
}

int
cli_ctl_open(struct cli_ctl *ctl, const char *option, struct gp_err *err)
{
    int r;

    begin(ctl, NULL);
    r = cli_scheduler_address(option, ctl->list, err);
    if (r < 0)
        return r;
    ctl_addresses_nth(ctl->list, 0, ctl->address, sizeof(ctl->address));
    return connect_any(ctl, err);
}

int
cli_ctl_open_next(struct cli_ctl *ctl, struct gp_err *err)
{
    cli_ctl_close(ctl);
    ctl->token = NULL;
    ctl->at = ctl_addresses_after(ctl->list, ctl->at, ctl->address);
    ctl_addresses_nth(ctl->list, ctl->at, ctl->address, sizeof(ctl->address));
    return connect_any(ctl, err);
}

void
cli_ctl_close(struct cli_ctl *ctl)
{
    ctl_link_close(&ctl->link);
}

static int
send_request(struct cli_ctl *ctl, Gpupool__Ctl__CtlRequest *req, uint64_t deadline,
             struct gp_err *err)
{
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size;

    req->id = ctl->next_id++;
    size = gpupool__ctl__ctl_request__get_packed_size(req);
    bytes = malloc(size);
    if (!bytes)
        return -ENOMEM;
    gpupool__ctl__ctl_request__pack(req, bytes);
    return gp_msg_send_over(ctl->link.wire, ctl->link.fd, bytes, size, deadline, err);
}

int
cli_ctl_exit(int r, const Gpupool__Ctl__CtlReply *reply)
{
    if (reply && reply->error &&
        reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST)
        return CLI_USAGE;
    if (reply && reply->error &&
        reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_UNRECORDED)
        return CLI_FAILED; /* done, and not refused: but not as it should be */
    if (r == -EINVAL)      /* of what names the scheduler, or how it is to be reached */
        return CLI_USAGE;
    if (r == -EREMOTE || r == -EACCES)
        return CLI_REFUSED;
    return r == -ENOMEM || r == -EPROTO ? CLI_FAILED : CLI_NO_POOL;
}

/* Until the answer begins to arrive. */
static int
watch(struct cli_ctl *ctl, uint64_t deadline, const int *pidfds, unsigned n,
      struct gp_err *err)
{
    struct pollfd fds[CLI_POOL_PROCESSES_MAX + 1] = {{ctl->link.fd, POLLIN, 0}};
    int ready;

    for (unsigned i = 0; i < n; i++)
        fds[i + 1] = (struct pollfd){pidfds[i], POLLIN, 0};
    do
        ready = poll(fds, n + 1, gp_poll_ms(deadline));
    while (ready < 0 && errno == EINTR);
    if (ready <= 0 || fds[0].revents)
        return 0; /* gp_msg_recv() says what is wrong, if anything */
    return gp_err_set(err, -ECHILD, "a daemon exited during start-up");
}

static int
call_once(struct cli_ctl *ctl, Gpupool__Ctl__CtlRequest *req, uint64_t deadline,
          const int *pidfds, unsigned n, Gpupool__Ctl__CtlReply **ret_reply,
          struct gp_err *err)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP_FREE void *data = NULL;
    size_t len = 0;
    int r;

    r = send_request(ctl, req, deadline, err);
    if (!r && n) {
        r = watch(ctl, deadline, pidfds, n, err);
        if (r < 0)
            return r;
    }
    if (!r)
        r = gp_msg_recv_over(ctl->link.wire, ctl->link.fd, CTL_REPLY_MAX, deadline,
                             &data, &len, err);
    if (r < 0)
        return gp_err_wrap(err, r, "scheduler %s", ctl->address);
    reply = cli_reply_unpack(data, len);
    if (!reply || (reply->id != req->id && reply->id))
        return gp_err_set(err, -EPROTO, "%s does not answer like a gpupool-scheduler",
                          ctl->address);
    r = reply->error ? gp_err_set(err, -EREMOTE, "%s", reply->error->words) : 0;
    *ret_reply = TAKE_PTR(reply);
    return r;
}

/* To the scheduler that @reply names, or to another one.  Only the first of a request
 * is asked at once: two may name each other, or one that is gone. */
static int
follow_leader(struct cli_ctl *ctl, const Gpupool__Ctl__CtlReply *reply, unsigned n,
              struct gp_err *err)
{
    int r;

    cli_ctl_close(ctl);
    if (n || !*reply->error->leader)
        usleep(LEADER_US);
    if (!*reply->error->leader) {
        cli_ctl_next(ctl);
    } else if (!gp_str_copy(ctl->address, sizeof(ctl->address), reply->error->leader)) {
        return gp_err_set(err, -EPROTO, "the leader's address is too long");
    }
    r = connect_any(ctl, err);
    if (!r && ctl->token)
        r = cli_ctl_prove(ctl, ctl->role, ctl->token, err);
    return r == -EREMOTE ? -EACCES
                         : r; /* the token is refused: no answer to a request */
}

static bool
not_leader(const Gpupool__Ctl__CtlReply *reply)
{
    return reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER;
}

int
cli_ctl_call_watching(struct cli_ctl *ctl, Gpupool__Ctl__CtlRequest *req,
                      uint64_t timeout_ns, const int *pidfds, unsigned n,
                      Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    uint64_t deadline = gp_now_ns() + timeout_ns;
    struct gp_err refusal = {0}; /* of the last that does not lead */
    unsigned hops = 0;
    int r = call_once(ctl, req, deadline, pidfds, n, ret_reply, err);

    while (r == -EREMOTE && gp_now_ns() < deadline &&
           (not_leader(*ret_reply) || ctl_retry_wait((*ret_reply)->error, deadline))) {
        CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = TAKE_PTR(*ret_reply);

        r = 0;
        if (not_leader(reply)) {
            gp_err_set(&refusal, r, "scheduler %s: %s", ctl->address,
                       reply->error->words);
            r = follow_leader(ctl, reply, hops++, err);
        }
        if (!r)
            r = call_once(ctl, req, deadline, pidfds, n, ret_reply, err);
    }
    /* That time was up is known; why nobody leads is what its user can do about. */
    if (r < 0 && r != -EREMOTE && *refusal.msg && gp_now_ns() >= deadline)
        gp_err_set(err, r, "%s", refusal.msg);
    return r;
}

int
cli_ctl_call(struct cli_ctl *ctl, Gpupool__Ctl__CtlRequest *req, uint64_t timeout_ns,
             Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    return cli_ctl_call_watching(ctl, req, timeout_ns, NULL, 0, ret_reply, err);
}

struct ctl_pins
cli_ctl_pins(const ProtobufCBinaryData *list, size_t n)
{
    struct ctl_pins keys = {.n = 0};

    for (size_t i = 0; i < n && keys.n < CTL_PINS_MAX; i++)
        if (list[i].len == TLS_PUBLIC_SIZE)
            memcpy(keys.keys[keys.n++], list[i].data, TLS_PUBLIC_SIZE);
    return keys;
}

/* ------------------------------------------------------------------- proof -- */

char *
cli_ctl_shown(const char *token)
{
    return ctl_token_shown(token);
}

static int
prove_call(void *arg, Gpupool__Ctl__CtlRequest *req, Gpupool__Ctl__CtlReply **ret_reply,
           struct gp_err *err)
{
    return cli_ctl_call(arg, req, CLI_DEADLINE_NS, ret_reply, err);
}

int
cli_ctl_prove(struct cli_ctl *ctl, Gpupool__Ctl__CtlRole role, const char *token,
              struct gp_err *err)
{
    ctl->role = role;
    ctl->token = token;
    return ctl_prove(prove_call, ctl, role, token, ctl->address,
                     ctl_link_key(&ctl->link), err);
}

/* ----------------------------------------------------------------- reasons -- */

/* How many reasons from @i on are the same, of cards of one server. */
static size_t
same_reasons(Gpupool__Ctl__CtlReason *const *reasons, size_t i, size_t n)
{
    size_t same = 1;

    while (i + same < n && !strcmp(reasons[i]->server, reasons[i + same]->server) &&
           !strcmp(reasons[i]->words, reasons[i + same]->words))
        same++;
    return same;
}

void
cli_print_reasons(FILE *f, bool grouped, Gpupool__Ctl__CtlReason *const *reasons,
                  size_t n, uint32_t left_off)
{
    for (size_t i = 0, same; i < n; i += same) {
        same = grouped ? same_reasons(reasons, i, n) : 1;
        if (same > 1)
            fprintf(f, "  %s, %zu cards: %s\n", reasons[i]->server, same,
                    reasons[i]->words);
        else
            fprintf(f, "  %s%s%s: %s\n", reasons[i]->server,
                    *reasons[i]->card ? " " : "", reasons[i]->card, reasons[i]->words);
    }
    if (left_off)
        fprintf(f, "  and %u more %s\n", left_off,
                gp_plural(left_off, "card", "cards"));
}
