/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_inventory.h"

#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_jail.h"
#include "srv_keeper.h"
#include "srv_kept.h"
#include "srv_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

/* A real driver on a host with sixteen cards needs some ten seconds to start. */
#define PROBE_MS 60000
#define PROBE_TEXT_MAX (64u * 1024)

/* What outlives the supervisor. */
struct probe_kept {
    struct srv_kept_head head;
    char text[PROBE_TEXT_MAX]; /* ended by a zero */
};
SRV_KEPT_SIZE(struct probe_kept, 65552);

struct srv_inventory {
    struct srv *srv;
    void (*done)(struct srv *srv, int result);
    pid_t pid;
    struct gp_loop_fd out;
    struct gp_loop_timer timer;
    char *text;
    char *found; /* the same, whole */
    size_t len;
    bool eof;
    bool reaped;
    int status;
    uint32_t driver_version;
    char rdma[CTL_RDMA_MAX];
    bool reports; /* errors of its cards */
    struct srv_card cards[SRV_CARDS_MAX];
    uint32_t n_cards;
};

/* "card INDEX UUID MEMORY SMS MAJOR MINOR NAME" */
static int
parse_card(struct srv_inventory *inv, const char *line)
{
    struct srv_card *c = &inv->cards[inv->n_cards];
    char uuid[64];
    int at = 0;

    if (inv->n_cards >= SRV_CARDS_MAX)
        return -E2BIG;
    if (sscanf(line,
               "card %" SCNu32 " %63s %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32
               " %n",
               &c->index, uuid, &c->memory, &c->sms, &c->cc_major, &c->cc_minor,
               &at) < 6 ||
        at == 0 || ticket_uuid_parse(uuid, c->uuid) < 0)
        return -EINVAL;
    gp_str_copy(c->name, sizeof(c->name), line + at);
    c->reserved = c->memory - srv_conf_scaled(&inv->srv->conf, c->index, c->memory);
    c->memory -= c->reserved;
    c->at = inv->n_cards++;
    return 0;
}

/* "facts LEAST GREATEST API LIMIT...", of the card before it */
static int
parse_facts(struct srv_inventory *inv, const char *line)
{
    struct wrk_facts *f = &inv->cards[inv->n_cards - 1].facts;
    int at = 0;

    if (inv->n_cards == 0 ||
        sscanf(line, "facts %" SCNd32 " %" SCNd32 " %" SCNu32 "%n", &f->priority_least,
               &f->priority_greatest, &f->api_version, &at) < 3)
        return -EINVAL;
    for (unsigned i = 0; i < WRK_LIMITS; i++) {
        int n = 0;

        if (sscanf(line + at, " %" SCNu64 "%n", &f->limits[i], &n) != 1)
            return -EINVAL;
        at += n;
    }
    return 0;
}

/* "island N", of the card before it */
static int
parse_island(struct srv_inventory *inv, const char *line)
{
    return inv->n_cards && sscanf(line, "island %" SCNu32,
                                  &inv->cards[inv->n_cards - 1].island) == 1
               ? 0
               : -EINVAL;
}

/* "fabric UUID/CLIQUE", of the card before it */
static int
parse_fabric(struct srv_inventory *inv, const char *line)
{
    return inv->n_cards && gp_str_copy(inv->cards[inv->n_cards - 1].fabric,
                                       SRV_FABRIC_MAX, line + strlen("fabric "))
               ? 0
               : -EINVAL;
}

/* "rdma ADDRESS": a port, which counts if it is to be offered. */
static void
parse_rdma(struct srv_inventory *inv, const char *address)
{
    const char *wanted = inv->srv->conf.rdma, *found = strstr(wanted, address);
    size_t at = strlen(inv->rdma), n = strlen(address);

    while (found &&
           ((found > wanted && found[-1] != ',') || (found[n] && found[n] != ',')))
        found = strstr(found + 1, address);
    if (strcmp(wanted, "auto") == 0 || found)
        snprintf(inv->rdma + at, sizeof(inv->rdma) - at, "%s%s", at ? "," : "",
                 address);
}

static int
parse(struct srv_inventory *inv)
{
    char *rest = inv->text;
    char *line;

    while ((line = strsep(&rest, "\n"))) {
        int r = 0;

        if (strncmp(line, "card ", 5) == 0)
            r = parse_card(inv, line);
        else if (strncmp(line, "facts ", 6) == 0)
            r = parse_facts(inv, line);
        else if (strncmp(line, "island ", 7) == 0)
            r = parse_island(inv, line);
        else if (strncmp(line, "fabric ", 7) == 0)
            r = parse_fabric(inv, line);
        else if (strcmp(line, "events") == 0)
            inv->reports = true;
        else if (strncmp(line, "rdma ", 5) == 0)
            parse_rdma(inv, line + 5);
        else if (sscanf(line, "driver %" SCNu32, &inv->driver_version) != 1 && *line)
            r = -EINVAL;
        if (r < 0) {
            gp_log_error("server", "probe: cannot understand `%s`", line);
            return r;
        }
    }
    return inv->n_cards ? 0 : -ENODEV;
}

/* Both the last byte and the exit status are here. */
static void
probe_finish(struct srv_inventory *inv)
{
    int r = 0;

    if (!inv->eof || !inv->reaped || !inv->done)
        return;
    gp_loop_timer_del(&inv->timer);
    if (!WIFEXITED(inv->status) || WEXITSTATUS(inv->status) != 0) {
        gp_log_error(
            "server", "probing the cards with driver %s failed (%s %d)",
            inv->srv->conf.driver, WIFEXITED(inv->status) ? "exit status" : "signal",
            WIFEXITED(inv->status) ? WEXITSTATUS(inv->status) : WTERMSIG(inv->status));
        r = -ENODEV;
    } else {
        inv->found = strdup(inv->text); /* parsing takes it apart */
        r = inv->found ? parse(inv) : -ENOMEM;
        if (r == -ENODEV)
            gp_log_error("server", "driver %s shows no card", inv->srv->conf.driver);
    }
    for (uint32_t i = 0; r == 0 && i < inv->n_cards; i++) {
        char uuid[TICKET_UUID_TEXT];

        ticket_uuid_format(inv->cards[i].uuid, uuid);
        gp_log_info("server",
                    "card %u: %s, %" PRIu64 " MiB (%" PRIu64
                    " MiB kept back), %u multiprocessors, %s",
                    inv->cards[i].index, inv->cards[i].name, inv->cards[i].memory >> 20,
                    inv->cards[i].reserved >> 20, inv->cards[i].sms, uuid);
    }
    if (r == 0 && srv_conf_n_scalings(&inv->srv->conf) > inv->n_cards)
        gp_log_warn("server",
                    "--memory-scaling %s: more numbers than cards, of which "
                    "there %s %u",
                    inv->srv->conf.memory_scaling, gp_plural(inv->n_cards, "is", "are"),
                    inv->n_cards);
    inv->done(inv->srv, r);
    inv->done = NULL;
}

static void
on_output(struct gp_loop_fd *src, uint32_t revents)
{
    struct srv_inventory *inv = container_of(src, struct srv_inventory, out);
    ssize_t n = read(src->fd, inv->text + inv->len, PROBE_TEXT_MAX - 1 - inv->len);

    (void)revents;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        inv->len += (size_t)n;
        return;
    }
    inv->text[inv->len] = 0;
    inv->eof = true;
    gp_loop_fd_del(src);
    close(src->fd);
    src->fd = -1;
    probe_finish(inv);
}

static void
on_deadline(struct gp_loop_timer *timer)
{
    struct srv_inventory *inv = container_of(timer, struct srv_inventory, timer);

    gp_log_error("server", "the probe did not answer within %d s; killed",
                 PROBE_MS / 1000);
    if (!inv->reaped)
        kill(inv->pid, SIGKILL);
}

int
srv_inventory_start(struct srv *srv, void (*done)(struct srv *srv, int result),
                    struct srv_inventory **ret, struct gp_err *err)
{
    char user[64] = "";
    const char *argv[] = {"gpupool-worker", "--probe", "--driver",
                          srv->conf.driver, "--read",  srv->conf.worker_read,
                          "--user",         user,      NULL};
    struct srv_spawn spawn = {
        .conf = &srv->conf, .program = srv->program, .jail = srv->jail, .argv = argv};
    struct srv_inventory *inv = calloc(1, sizeof(*inv));
    CLEANUP_FD int write_end = -1;
    int pipe_fds[2];
    int r = 0;

    srv_jail_user(srv->jail, NULL, user);
    if (!inv || !(inv->text = malloc(PROBE_TEXT_MAX)))
        r = gp_err_set(err, -ENOMEM, "no memory for the probe");
    else if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        r = gp_err_set(err, -errno, "a pipe to the probe: %s%s", strerror(errno),
                       errno == EMFILE ? ", the limit of open files (RLIMIT_NOFILE, "
                                         "ulimit -n) is too low"
                                       : "");
    if (r < 0) {
        if (inv)
            free(inv->text);
        free(inv);
        return r;
    }
    inv->srv = srv;
    inv->done = done;
    inv->out.fd = pipe_fds[0];
    write_end = pipe_fds[1];
    fcntl(write_end, F_SETFL, 0);
    spawn.stdout_fd = write_end;
    r = srv_spawn(&spawn, &inv->pid, err);
    if (r == 0)
        r = gp_loop_fd_add(srv->loop, &inv->out, pipe_fds[0], EPOLLIN, on_output);
    if (r < 0) {
        srv_inventory_free(inv);
        return r;
    }
    gp_loop_timer_set(srv->loop, &inv->timer, gp_now_ns() + PROBE_MS * GP_NS_PER_MS,
                      on_deadline);
    *ret = inv;
    return 0;
}

void
srv_inventory_free(struct srv_inventory *inv)
{
    if (!inv)
        return;
    if (inv->pid > 0 && !inv->reaped)
        kill(inv->pid, SIGKILL);
    gp_loop_timer_del(&inv->timer);
    gp_loop_fd_del(&inv->out);
    if (inv->out.fd >= 0)
        close(inv->out.fd);
    free(inv->text);
    free(inv->found);
    free(inv);
}

int
srv_inventory_adopt(struct srv *srv, int fd, struct srv_inventory **ret,
                    struct gp_err *err)
{
    struct srv_inventory *inv = calloc(1, sizeof(*inv));
    struct probe_kept *kept;
    void *map = NULL;
    int r = inv ? srv_kept_map(fd, SRV_KEPT_PROBE, sizeof(*kept), &map) : -ENOMEM;

    kept = map;
    if (r == 0) {
        kept->text[PROBE_TEXT_MAX - 1] = 0;
        inv->srv = srv;
        inv->out.fd = -1;
        inv->text = strdup(kept->text);
        inv->found = strdup(kept->text);
        r = inv->text && inv->found ? parse(inv) : -ENOMEM;
    }
    srv_kept_unmap(map, sizeof(*kept));
    if (r < 0) {
        srv_inventory_free(inv);
        return gp_err_set(err, r, "what the keeper has of the cards");
    }
    *ret = inv;
    return 0;
}

void
srv_inventory_keep(const struct srv_inventory *inv, struct srv_keeper *keeper)
{
    struct probe_kept *kept;
    CLEANUP_FD int fd = -1;
    void *map = NULL;

    if (!keeper || srv_kept_new(SRV_KEPT_PROBE, sizeof(*kept), &fd, &map, NULL) < 0)
        return;
    kept = map;
    gp_str_copy(kept->text, sizeof(kept->text), inv->found);
    srv_keeper_put(keeper, SRV_KEEP_PROBE, 0, 0, &fd, 1);
    srv_kept_unmap(map, sizeof(*kept));
}

bool
srv_inventory_reaped(struct srv_inventory *inv, pid_t pid, int status)
{
    if (!inv || inv->pid != pid || inv->reaped)
        return false;
    inv->reaped = true;
    inv->status = status;
    probe_finish(inv);
    return true;
}

uint32_t
srv_inventory_count(const struct srv_inventory *inv)
{
    return inv->n_cards;
}

const struct srv_card *
srv_inventory_card(const struct srv_inventory *inv, uint32_t i)
{
    return &inv->cards[i];
}

const struct srv_card *
srv_inventory_find(const struct srv_inventory *inv,
                   const uint8_t uuid[TICKET_UUID_SIZE])
{
    for (uint32_t i = 0; i < inv->n_cards; i++) {
        if (memcmp(inv->cards[i].uuid, uuid, TICKET_UUID_SIZE) == 0)
            return &inv->cards[i];
    }
    return NULL;
}

const char *
srv_inventory_rdma(const struct srv_inventory *inv)
{
    return inv->rdma;
}

const char *
srv_inventory_fabric(const struct srv_inventory *inv)
{
    for (uint32_t i = 1; i < inv->n_cards; i++)
        if (strcmp(inv->cards[i].fabric, inv->cards[0].fabric) != 0)
            return "";
    return inv->n_cards ? inv->cards[0].fabric : "";
}

bool
srv_inventory_reports(const struct srv_inventory *inv)
{
    return inv->reports;
}

uint32_t
srv_inventory_driver_version(const struct srv_inventory *inv)
{
    return inv->driver_version;
}
