/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_health.h"

#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_inventory.h"
#include "srv_spawn.h"
#include "srv_types.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A context on a real card takes a second, and more on a busy host. */
#define CHECK_MS 60000
/* A program that crashes its worker in a loop causes one check in so long. */
#define PAUSE_MS 5000

struct card {
    bool suspect;                   /* a check is due */
    uint64_t after_ns, reported_ns; /* no check before; NVML's last report */
    char fault[SRV_FAULT_MAX];
};

struct srv_health {
    struct srv *srv;
    struct card cards[SRV_CARDS_MAX];
    uint32_t at; /* the card that is being checked */
    pid_t pid;   /* 0: none is */
    int out;
    bool late; /* it did not answer in time */
    uint64_t begun_ns;
    struct gp_loop_timer timer;
};

int
srv_health_new(struct srv *srv, struct srv_health **ret, struct gp_err *err)
{
    struct srv_health *health = calloc(1, sizeof(*health));

    if (!health)
        return gp_err_set(err, -ENOMEM, "out of memory");
    health->srv = srv;
    health->out = -1;
    *ret = health;
    return 0;
}

void
srv_health_free(struct srv_health *health)
{
    if (!health)
        return;
    gp_loop_timer_del(&health->timer);
    if (health->pid)
        kill(health->pid, SIGKILL);
    if (health->out >= 0)
        close(health->out);
    free(health);
}

const char *
srv_health_fault(const struct srv_health *health, uint32_t at)
{
    return health && at < SRV_CARDS_MAX ? health->cards[at].fault : "";
}

/* ------------------------------------------------------------------- checks -- */

static void begin(struct srv_health *health);

static void
on_timer(struct gp_loop_timer *timer)
{
    struct srv_health *health = container_of(timer, struct srv_health, timer);

    if (!health->pid) {
        begin(health);
        return;
    }
    health->late = true;
    kill(health->pid, SIGKILL);
}

static int
start_check(struct srv_health *health, uint32_t at, struct gp_err *err)
{
    const struct srv *srv = health->srv;
    char user[64] = "", number[16];
    const char *argv[] = {"gpupool-worker", "--probe", "--driver",
                          srv->conf.driver, "--read",  srv->conf.worker_read,
                          "--user",         user,      "--check",
                          number,           NULL};
    struct srv_spawn spawn = {
        .conf = &srv->conf, .program = srv->program, .jail = srv->jail, .argv = argv};
    CLEANUP_FD int write_end = -1;
    int fds[2], r;

    snprintf(number, sizeof(number), "%u",
             srv_inventory_card(srv->inventory, at)->index);
    srv_jail_user(srv->jail, NULL, user);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return gp_err_set(err, -errno, "pipe: %s", strerror(errno));
    write_end = fds[1];
    spawn.stdout_fd = write_end;
    r = srv_spawn(&spawn, &health->pid, err);
    if (r < 0) {
        close(fds[0]);
        return r;
    }
    health->out = fds[0];
    health->at = at;
    health->late = false;
    health->begun_ns = gp_now_ns();
    return 0;
}

/* The first card that is due; or sleep until one is. */
static void
begin(struct srv_health *health)
{
    uint64_t now = gp_now_ns(), next = GP_FOREVER;
    struct gp_err err = {0};
    uint32_t n = srv_inventory_count(health->srv->inventory);
    int r;

    if (health->pid || health->srv->stopping || health->srv->leaving)
        return;
    for (uint32_t i = 0; i < n; i++) {
        struct card *card = &health->cards[i];

        if (!card->suspect || card->after_ns > now) {
            if (card->suspect)
                next = gp_min(next, card->after_ns);
            continue;
        }
        r = start_check(health, i, &err);
        if (!r) {
            gp_loop_timer_set(health->srv->loop, &health->timer,
                              now + CHECK_MS * GP_NS_PER_MS, on_timer);
            return;
        }
        gp_log_warn("server", "card %u cannot be checked: %s",
                    srv_inventory_card(health->srv->inventory, i)->index,
                    gp_err_msg(&err, r));
        card->after_ns = now + PAUSE_MS * GP_NS_PER_MS;
        next = gp_min(next, card->after_ns);
    }
    if (next != GP_FOREVER)
        gp_loop_timer_set(health->srv->loop, &health->timer, next, on_timer);
}

/* What the check has said, all of which is in the pipe; "": nothing. */
static void
read_words(struct srv_health *health, char *words, size_t size)
{
    char text[SRV_FAULT_MAX] = "";
    ssize_t n = read(health->out, text, sizeof(text) - 1);

    close(health->out);
    health->out = -1;
    text[gp_max(n, (ssize_t)0)] = 0;
    text[strcspn(text, "\n")] = 0;
    gp_str_copy_printable(words, size, text);
}

static void
set_fault(struct srv_health *health, uint32_t at, const char *words)
{
    struct card *card = &health->cards[at];
    uint32_t index = srv_inventory_card(health->srv->inventory, at)->index;
    char number[16];

    card->suspect = *words; /* until it works again */
    card->after_ns = gp_now_ns() + PAUSE_MS * GP_NS_PER_MS;
    if (*words)
        card->after_ns = gp_now_ns() + health->srv->conf.check_seconds * GP_NS_PER_S;
    if (!*words && !*card->fault)
        gp_log_info("server", "card %u was checked: it works", index);
    if (!strcmp(card->fault, words))
        return;
    gp_str_copy(card->fault, sizeof(card->fault), words);
    snprintf(number, sizeof(number), "%u", index);
    if (*words) {
        gp_log_error("server", "card %u is out of use: %s", index, words);
        gp_audit("fault", "card", number, "words", words, NULL);
    } else {
        gp_log_warn("server", "card %u accepts sessions again", index);
        gp_audit("well", "card", number, NULL);
    }
    srv_changed(health->srv);
}

bool
srv_health_reaped(struct srv_health *health, pid_t pid, int status)
{
    char words[SRV_FAULT_MAX] = "";

    if (!health || !health->pid || health->pid != pid)
        return false;
    health->pid = 0;
    gp_loop_timer_del(&health->timer);
    read_words(health, words, sizeof(words));
    if (health->late)
        snprintf(words, sizeof(words), "a check did not end within %d s",
                 CHECK_MS / 1000);
    else if (WIFSIGNALED(status))
        snprintf(words, sizeof(words), "a check was killed by signal %d",
                 WTERMSIG(status));
    else if (WEXITSTATUS(status) && !*words)
        snprintf(words, sizeof(words), "a check ended with status %d",
                 WEXITSTATUS(status));
    if (!*words && health->cards[health->at].reported_ns > health->begun_ns)
        gp_str_copy(words, sizeof(words), health->cards[health->at].fault);
    set_fault(health, health->at, words);
    begin(health);
    return true;
}

/* ------------------------------------------------------------------- suspicion -- */

static void
suspect(struct srv_health *health, const uint8_t *uuid)
{
    const struct srv_card *card = srv_inventory_find(health->srv->inventory, uuid);

    if (card)
        health->cards[card->at].suspect = true;
}

void
srv_health_worker_ended(struct srv *srv, const struct srv_session *session, bool error,
                        bool crashed)
{
    if (!srv->health || !(error || crashed) || srv->stopping || srv->leaving)
        return;
    for (uint32_t i = 0; i < session->claims.n_slices; i++)
        suspect(srv->health, session->claims.slices[i].card_uuid);
    begin(srv->health);
}

void
srv_health_check_all(struct srv *srv)
{
    uint32_t n = srv_inventory_count(srv->inventory);

    if (!srv->health || srv->stopping || srv->leaving)
        return;
    for (uint32_t i = 0; i < n; i++)
        srv->health->cards[i].suspect = true;
    begin(srv->health);
}

/* ------------------------------------------------------------------- reports -- */

static void
reported(struct srv *srv, const uint8_t *uuid, const char *words)
{
    const struct srv_card *card = srv_inventory_find(srv->inventory, uuid);

    if (!srv->health || !card || srv->stopping || srv->leaving)
        return;
    srv->health->cards[card->at].reported_ns = gp_now_ns();
    set_fault(srv->health, card->at, words);
    begin(srv->health);
}

void
srv_health_ecc(struct srv *srv, const uint8_t *uuid)
{
    reported(srv, uuid, "NVML reports a double-bit ECC error");
}

/* Xids that programs cause, or that say what was repaired, as NVIDIA's list of them
 * has it: an exception or a wrong address of a kernel, a channel that was torn down,
 * video engines, a time limit; a row that was remapped, corrected and contained errors
 * of memory. */
static bool
is_harmless(uint64_t code)
{
    static const uint8_t codes[] = {13, 31, 32, 43, 45, 63, 68, 92, 94, 109};

    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (codes[i] == code)
            return true;
    return false;
}

static const char *
xid_words(uint64_t code)
{
    switch (code) {
    case 48:
        return ", a double-bit ECC error";
    case 62:
        return ", its controller has halted";
    case 64:
        return ", a row of memory could not be remapped";
    case 74:
        return ", an error of NVLink";
    case 79:
        return ", it has fallen off the bus";
    case 95:
        return ", an uncontained ECC error";
    case 119:
    case 120:
        return ", its system processor does not answer";
    default:
        return "";
    }
}

void
srv_health_xid(struct srv *srv, const uint8_t *uuid, uint64_t code)
{
    char words[SRV_FAULT_MAX];

    if (is_harmless(code)) {
        gp_log_info("server", "NVML reports Xid %" PRIu64 ", which programs cause",
                    code);
        return;
    }
    snprintf(words, sizeof(words), "NVML reports Xid %" PRIu64 "%s", code,
             xid_words(code));
    reported(srv, uuid, words);
}
