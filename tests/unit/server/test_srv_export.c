/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that processes of a session share: who gets one, who pays, when it ends. */
#include "ut.h"

#include "gp_err.h"
#include "srv.h"
#include "srv_desk.h"
#include "srv_export.h"
#include "srv_ledger.h"
#include "srv_session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define BYTES 4096u
#define SLOTS 8u

static struct srv srv;
static const struct wrk_segment *segment; /* as workers see it */
static struct srv_desk *desks[SLOTS];
static struct srv_session session;

static int
fresh(void **state)
{
    (void)state;
    memset(&srv, 0, sizeof(srv));
    session = (struct srv_session){.srv = &srv};
    session.claims.n_slices = 1;
    session.claims.slices[0].memory = SLOTS * BYTES;
    assert_int_equal(srv_ledger_new(&session.claims, &session.ledger, NULL), 0);
    segment = mmap(NULL, sizeof(*segment), PROT_READ, MAP_SHARED,
                   srv_ledger_segment_fd(session.ledger), 0);
    assert_ptr_not_equal(segment, MAP_FAILED);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t slot;

        assert_int_equal(srv_ledger_slot_take(session.ledger, &slot), 0);
        assert_int_equal(slot, i);
        assert_int_equal(srv_desk_new(&desks[i], NULL), 0);
        srv_ledger_desk(session.ledger, i, desks[i], 1 + i);
    }
    return 0;
}

static int
gone(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SLOTS; i++)
        srv_desk_free(desks[i]);
    munmap((void *)(uintptr_t)segment, sizeof(*segment));
    srv_ledger_free(session.ledger);
    return 0;
}

/* What the worker on @slot exports and pays for. */
static struct wrk_request
offer(uint32_t slot)
{
    struct wrk_request ask = {
        .kind = WRK_REQUEST_SHARE, .own = WRK_SHARE_MEMORY, .bytes = BYTES};
    int fd = memfd_create("share", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_true(srv_ledger_take(session.ledger, slot, 0, BYTES));
    assert_int_equal(srv_export_new(&session, slot, &ask, fd, NULL), 0);
    return ask;
}

/* It gives its bytes back, and then says so. */
static void
exporter_drops(uint32_t slot, const struct wrk_request *ask)
{
    atomic_fetch_add(&desks[slot]->desk->usage.gave[0], BYTES);
    atomic_fetch_add(&desks[slot]->desk->usage.gave_n[0], 1);
    srv_export_drop(&session, slot, ask);
}

static void
slot_ends(uint32_t slot)
{
    srv_ledger_leave(session.ledger, slot);
    srv_export_leave(&session, slot);
}

static uint64_t
used(uint32_t slot)
{
    srv_ledger_look(session.ledger);
    assert_int_equal(srv_ledger_pieces(session.ledger, 0),
                     atomic_load(&segment->used[0]) / BYTES);
    return atomic_load(&segment->members[slot].used[0]);
}

static void
token_and_kind_must_be_right(void **state)
{
    struct wrk_request ask = offer(0), asked = ask;

    (void)state;
    assert_true(srv_export_find(&session, 1, &asked) >= 0);
    assert_int_equal(asked.bytes, BYTES);
    for (unsigned i = 0; i < 8 * WRK_SHARE_TOKEN; i++) {
        asked = ask;
        asked.secret[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(srv_export_find(&session, 1, &asked), -1);
    }
    asked = ask;
    asked.own = WRK_SHARE_POOL;
    assert_int_equal(srv_export_find(&session, 1, &asked), -1);
    srv_export_free_all(&session);
    assert_int_equal(srv.n_shares, 0);
}

static void
other_sessions_have_other_objects(void **state)
{
    struct srv_session other = {.srv = &srv, .ledger = session.ledger};
    struct wrk_request ask = offer(0);

    (void)state;
    assert_int_equal(srv_export_find(&other, 1, &ask), -1);
    srv_export_free_all(&session);
}

static void
last_holder_pays_and_ends_it(void **state)
{
    struct wrk_request ask = offer(0);

    (void)state;
    assert_true(srv_export_find(&session, 1, &ask) >= 0);
    assert_true(srv_export_find(&session, 2, &ask) >= 0);
    assert_int_equal(used(0) + used(1) + used(2), BYTES);
    exporter_drops(0, &ask);
    assert_int_equal(used(0), 0);
    assert_int_equal(used(1) + used(2), BYTES);
    srv_export_drop(&session, 1, &ask);
    assert_int_equal(used(1), 0);
    assert_int_equal(used(2), BYTES);
    srv_export_drop(&session, 2, &ask);
    assert_int_equal(used(2), 0);
    assert_int_equal(srv.n_shares, 0);
    assert_int_equal(srv_export_find(&session, 1, &ask), -1);
}

static void
worker_that_dies_leaves_the_bill_to_the_next(void **state)
{
    struct wrk_request ask = offer(3);

    (void)state;
    assert_true(srv_export_find(&session, 5, &ask) >= 0);
    assert_true(srv_export_find(&session, 5, &ask) >= 0);
    slot_ends(3);
    assert_int_equal(used(5), BYTES);
    srv_export_drop(&session, 5, &ask);
    assert_int_equal(used(5), BYTES);
    slot_ends(5);
    assert_int_equal(used(5), 0);
    assert_int_equal(srv.n_shares, 0);
}

static void
letting_go_of_what_one_does_not_hold_changes_nothing(void **state)
{
    struct wrk_request ask = offer(0);

    (void)state;
    srv_export_drop(&session, 1, &ask);
    assert_int_equal(used(0), BYTES);
    assert_int_equal(srv.n_shares, 1);
    slot_ends(7);
    assert_int_equal(srv.n_shares, 1);
    srv_export_free_all(&session);
}

static void
session_has_a_limit_of_objects(void **state)
{
    struct wrk_request ask = {.own = WRK_SHARE_POOL};
    int fd = memfd_create("share", MFD_CLOEXEC);

    (void)state;
    session.n_shares = SRV_SHARES_MAX;
    assert_int_equal(srv_export_new(&session, 0, &ask, fd, NULL), -EDQUOT);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was taken all the same */
    session.n_shares = 0;
    srv.n_shares = 1u << 30;
    assert_int_equal(srv_export_new(&session, 0, &ask, dup(0), NULL), -EDQUOT);
    srv.n_shares = 0;
    ask.slice = 1;
    assert_int_equal(srv_export_new(&session, 0, &ask, dup(0), NULL), -EINVAL);
    ask.slice = 0;
    ask.bytes = SLOTS * BYTES + 1; /* more than the session may have */
    assert_int_equal(srv_export_new(&session, 0, &ask, dup(0), NULL), -EINVAL);
}

/* One session, or one owner, leaves some of the server's descriptors to others. */
static void
session_and_owner_have_a_part_of_what_the_server_may_open(void **state)
{
    struct wrk_request ask = {.own = WRK_SHARE_MEMORY, .bytes = BYTES};
    struct srv_session second = session, other = session;
    struct rlimit files, few;
    struct gp_err err = {0};

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = 1024;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    srv.sessions = &session;
    session.next = &second;
    second.next = &other;
    memcpy(other.claims.owner, "other", sizeof("other"));
    session.n_shares = srv.n_shares = 1024 / SRV_SHARES_SESSION;
    assert_int_equal(srv_export_new(&session, 0, &ask, dup(0), &err), -EDQUOT);
    assert_non_null(strstr(err.msg, "its session may share"));
    assert_non_null(strstr(err.msg, "LimitNOFILE="));
    assert_int_equal(srv_export_new(&second, 0, &ask, dup(0), &err), 0);
    srv_export_free_all(&second);
    /* Two sessions of the owner have all that is the owner's. */
    session.n_shares = 1024 / SRV_SHARES_OWNER;
    assert_int_equal(srv_export_new(&second, 0, &ask, dup(0), &err), -EDQUOT);
    assert_non_null(strstr(err.msg, "its owner may share"));
    assert_int_equal(srv_export_new(&other, 0, &ask, dup(0), &err), 0);
    srv_export_free_all(&other);
    srv.sessions = NULL;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* Memory that a driver opens by name has the token that its worker says. */
static void
named_object_is_found_by_its_name_until_its_maker_lets_go(void **state)
{
    struct wrk_request ask = {.own = WRK_SHARE_FILE, .secret = "/driver.1"}, asked;

    (void)state;
    asked = ask;
    assert_int_equal(srv_export_find(&session, 1, &asked), -1);
    assert_int_equal(
        srv_export_new(&session, 0, &asked, memfd_create("share", MFD_CLOEXEC), NULL),
        0);
    assert_memory_equal(asked.secret, ask.secret, WRK_SHARE_TOKEN);
    asked = ask;
    assert_int_equal(
        srv_export_new(&session, 1, &asked, memfd_create("share", MFD_CLOEXEC), NULL),
        -EEXIST);
    assert_int_equal(srv.n_shares, 1);
    srv_export_drop(&session, 1, &ask); /* it is not this one's to end */
    assert_true(srv_export_find(&session, 1, &ask) >= 0);
    srv_export_drop(&session, 1, &ask);
    assert_int_equal(srv.n_shares, 1);
    srv_export_drop(&session, 0, &ask);
    assert_int_equal(srv.n_shares, 0);
    assert_int_equal(srv_export_find(&session, 1, &ask), -1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(token_and_kind_must_be_right),
        CASE(other_sessions_have_other_objects),
        CASE(last_holder_pays_and_ends_it),
        CASE(worker_that_dies_leaves_the_bill_to_the_next),
        CASE(letting_go_of_what_one_does_not_hold_changes_nothing),
        CASE(session_has_a_limit_of_objects),
        CASE(session_and_owner_have_a_part_of_what_the_server_may_open),
        CASE(named_object_is_found_by_its_name_until_its_maker_lets_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
