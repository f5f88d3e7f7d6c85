/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory files that a supervisor of before has left, whose writer may have died in the
 * middle of a change: mapped, checked and mended, as its successor does.
 *
 * The first byte names what is adopted; the rest lies over a sound structure, from the
 * place on that two bytes say, so that magic numbers and sizes are right unless the
 * input wants them otherwise.
 */
#include "gp_err.h"
#include "srv_arbiter.h"
#include "srv_conf.h"
#include "srv_desk.h"
#include "srv_kept.h"
#include "srv_ledger.h"
#include "srv_state.h"
#include "ticket.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CARDS 2u

static const uint8_t *input;
static size_t input_len;

/* Copy the input over the memory file @fd, patch by patch: a place, a length, bytes. */
static void
scribble(int fd)
{
    struct stat st;
    uint8_t *map;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
        return;
    map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return;
    while (input_len >= 4) {
        size_t at =
            (size_t)(input[0] | input[1] << 8 | input[2] << 16) % (size_t)st.st_size;
        size_t n = gp_min((size_t)input[3], input_len - 4);

        n = gp_min(n, (size_t)st.st_size - at);
        memcpy(map + at, input + 4, n);
        input += 4 + n;
        input_len -= 4 + n;
    }
    munmap(map, (size_t)st.st_size);
}

static struct ticket_claims
claims(void)
{
    struct ticket_claims c = {.session_id = 7, .n_slices = CARDS};

    for (unsigned i = 0; i < CARDS; i++)
        c.slices[i].memory = 1 << 20;
    return c;
}

static void
use_ledger(struct srv_ledger *b)
{
    char words[WRK_ENDING_MAX];
    uint64_t bytes, n;
    uint32_t slot;

    srv_ledger_mend(b);
    if (srv_ledger_slot_take(b, &slot) == 0) {
        srv_ledger_take(b, slot, 0, 4096);
        srv_ledger_granted(b, slot, 0, &bytes, &n);
        srv_ledger_leave(b, slot);
    }
    srv_ledger_look(b);
    for (uint32_t i = 0; i < 2; i++) {
        srv_ledger_used(b, i);
        srv_ledger_high(b, i);
        srv_ledger_pieces(b, i);
        srv_ledger_spent(b, (enum wrk_spent)0, i);
    }
    srv_ledger_ended(b, words);
}

static void
adopt_ledger(void)
{
    struct srv_ledger *b = NULL, *next = NULL;
    struct ticket_claims c = claims();

    if (srv_ledger_new(&c, &b, NULL) < 0)
        __builtin_trap();
    scribble(srv_ledger_kept_fd(b));
    int kept = dup(srv_ledger_kept_fd(b)), segment = dup(srv_ledger_segment_fd(b));

    srv_ledger_free(b);
    if (srv_ledger_adopt(&c, kept, segment, &next, NULL) == 0) {
        use_ledger(next);
        srv_ledger_free(next);
    } else {
        close(kept);
    }
    close(segment);
}

/* As the supervisor does for a worker with a slice of each card. */
static void
seat(struct srv_desk *d, struct srv_ledger *ledger, uint32_t slot)
{
    d->session = 7;
    d->ledger = ledger;
    d->slot = slot;
    d->n_slices = CARDS;
    for (uint32_t i = 0; i < CARDS; i++) {
        d->slices[i].card = i;
        d->slices[i].share = (struct gov_share){.core = 50, .core_limit = 50};
    }
    srv_ledger_desk(ledger, slot, d, 1000);
}

/* A worker's files and the arbiter's, when their supervisor is gone. */
static struct srv_desk_files
leave_desk(struct srv_ledger *ledger, uint32_t slot, int *ret_arbiter)
{
    struct srv_desk *d = NULL;
    struct srv_arbiter *arb = NULL;
    struct srv_desk_files files;

    if (srv_desk_new(&d, NULL) < 0 || srv_arbiter_new(CARDS, &arb, NULL) < 0)
        __builtin_trap();
    seat(d, ledger, slot);
    if (srv_arbiter_add(arb, d, NULL) < 0)
        __builtin_trap();
    *ret_arbiter = dup(srv_arbiter_kept(arb));
    files = (struct srv_desk_files){dup(d->desk_fd), dup(d->notice_fd), dup(d->wake_fd),
                                    dup(d->kept_fd)};
    srv_arbiter_remove(arb, d);
    srv_arbiter_free(arb);
    srv_desk_free(d);
    return files;
}

static void
adopt_desk(bool of_arbiter)
{
    struct srv_arbiter *arb = NULL;
    struct srv_ledger *ledger = NULL;
    struct ticket_claims c = claims();
    struct srv_desk *d = NULL;
    struct srv_desk_files files;
    uint32_t slot;
    int kept;

    if (srv_ledger_new(&c, &ledger, NULL) < 0 ||
        srv_ledger_slot_take(ledger, &slot) < 0)
        __builtin_trap();
    files = leave_desk(ledger, slot, &kept);
    scribble(of_arbiter ? kept : files.kept);
    if (srv_arbiter_adopt(CARDS, kept, &arb, NULL) < 0)
        __builtin_trap();
    close(kept);
    if (srv_desk_adopt(&files, &d, NULL) == 0) {
        seat(d, ledger, slot);
        if (srv_arbiter_readd(arb, d, NULL) == 0) {
            srv_arbiter_mend(arb);
            srv_arbiter_busy(arb, 0);
            srv_arbiter_remove(arb, d);
        }
        srv_ledger_leave(ledger, slot);
        srv_desk_free(d);
    } else {
        close(files.desk);
        close(files.notice);
        close(files.wake);
        close(files.kept);
    }
    srv_arbiter_free(arb);
    srv_ledger_free(ledger);
}

static void
adopt_state(void)
{
    static struct srv_conf conf;
    struct srv_state *state = NULL;
    void *map = NULL;
    int fd = -1;

    if (srv_kept_new(SRV_KEPT_SERVER, sizeof(*state), &fd, &map, NULL) < 0)
        __builtin_trap();
    srv_kept_unmap(map, sizeof(*state));
    scribble(fd);
    if (srv_state_adopt(&conf, fd, &state, NULL) == 0)
        srv_state_free(state);
    close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    input = data + 1;
    input_len = size - 1;
    if (data[0] % 4 == 0)
        adopt_ledger();
    else if (data[0] % 4 == 3)
        adopt_state();
    else
        adopt_desk(data[0] % 4 == 1);
    return 0;
}
