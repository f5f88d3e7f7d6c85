/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's state on disk: files of earlier versions, and of later ones. */
#include "ut.h"

#include "gp_err.h"
#include "sched_pool.h"
#include "sched_session.h"
#include "sched_store.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)
#define NOW (UINT64_C(5000000000))

/* What a scheduler of state version 1 left: two servers, one of them drained, and two
 * sessions; session 8 was the last, and is closed. */
static const char *const VERSION_1 =
    "CREATE TABLE server (name TEXT PRIMARY KEY, endpoint TEXT NOT NULL,"
    " local TEXT NOT NULL, version TEXT NOT NULL, driver TEXT NOT NULL,"
    " driver_version INTEGER NOT NULL, drain INTEGER NOT NULL) STRICT;"
    "CREATE TABLE card (uuid BLOB PRIMARY KEY,"
    " server TEXT NOT NULL REFERENCES server(name), idx INTEGER NOT NULL,"
    " name TEXT NOT NULL, memory INTEGER NOT NULL, sms INTEGER NOT NULL,"
    " cc_major INTEGER NOT NULL, cc_minor INTEGER NOT NULL) STRICT;"
    "CREATE INDEX card_server ON card(server);"
    "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " lease_key BLOB NOT NULL, owner TEXT NOT NULL, program TEXT NOT NULL,"
    " policy INTEGER NOT NULL, core_limit INTEGER NOT NULL,"
    " max_attachments INTEGER NOT NULL, lease_ms INTEGER NOT NULL,"
    " opened INTEGER NOT NULL, offline INTEGER NOT NULL) STRICT;"
    "CREATE TABLE slice (session INTEGER NOT NULL REFERENCES session(id)"
    " ON DELETE CASCADE, pos INTEGER NOT NULL, card BLOB NOT NULL,"
    " core INTEGER NOT NULL, memory INTEGER NOT NULL,"
    " PRIMARY KEY (session, pos)) STRICT;"
    "INSERT INTO server VALUES"
    " ('left', '10.0.0.1:7000', '', '0.1.0', 'softgpu', 12020, 0),"
    " ('right', '10.0.0.2:7000', 'unix:/run/right', '0.1.0', 'softgpu', 12020, 1);"
    "INSERT INTO card VALUES"
    " (x'00112233445566778899aabbccddeeff', 'left', 0, 'Soft', 4294967296, 2, 8, 6),"
    " (x'ffeeddccbbaa99887766554433221100', 'right', 0, 'Soft', 4294967296, 2, 8, 6);"
    "INSERT INTO session VALUES"
    " (3, x'000102030405060708090a0b0c0d0e0f', 'ada@desk', 'train', 0, 0, 4, 60000,"
    "  1700000000, 0),"
    " (7, x'f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 'bob@desk', 'serve', 1, 80, 8, 30000,"
    "  1700000001, 1),"
    " (8, x'00000000000000000000000000000000', 'bob@desk', 'gone', 0, 0, 1, 30000,"
    "  1700000002, 0);"
    "DELETE FROM session WHERE id = 8;"
    "INSERT INTO slice VALUES"
    " (3, 0, x'00112233445566778899aabbccddeeff', 30, 1073741824),"
    " (3, 1, x'ffeeddccbbaa99887766554433221100', 50, 2147483648),"
    " (7, 0, x'00112233445566778899aabbccddeeff', 20, 536870912);"
    "PRAGMA user_version = 1;";

/* A file in a folder of its own, and what was loaded from it. */
struct state {
    char dir[64], path[80];
    struct sched_store *store;
    struct sched_pool *pool;
    struct sched_sessions sessions;
};

static void
state_sql(const struct state *s, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(s->path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static int
state_version(const struct state *s)
{
    sqlite3_stmt *st;
    sqlite3 *db;
    int version;

    assert_int_equal(sqlite3_open(s->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    version = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return version;
}

static int
setup(void **state)
{
    struct state *s = calloc(1, sizeof(*s));

    snprintf(s->dir, sizeof(s->dir), "/tmp/ut-store-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->path, sizeof(s->path), "%s/state", s->dir);
    *state = s;
    return 0;
}

static int
teardown(void **state)
{
    struct state *s = *state;

    unlink(s->path);
    assert_int_equal(rmdir(s->dir), 0); /* the journal is gone as well */
    free(s);
    return 0;
}

static void
state_load(struct state *s)
{
    struct gp_err err = {0};

    if (sched_store_open(s->path, &s->store, &err) < 0)
        fail_msg("%s", err.msg);
    s->pool = sched_pool_new();
    sched_sessions_init(&s->sessions, s->pool);
    if (sched_store_load(s->store, s->pool, &s->sessions, NOW, &err) < 0 ||
        sched_store_start_epoch(s->store, &s->sessions, &err) < 0 ||
        sched_store_commit(s->store, &err) < 0)
        fail_msg("%s", err.msg);
}

static void
state_drop(struct state *s)
{
    sched_sessions_fini(&s->sessions);
    sched_pool_free(s->pool);
    sched_store_close(s->store);
}

/* The sessions of VERSION_1. */
static void
sessions_are_as_they_were(struct state *s)
{
    struct sched_session *ada = sched_sessions_find(&s->sessions, 3),
                         *bob = sched_sessions_find(&s->sessions, 7);

    assert_non_null(ada);
    assert_non_null(bob);
    assert_string_equal(ada->owner->name, "ada@desk");
    assert_string_equal(ada->program, "train");
    assert_int_equal(ada->lease_key[15], 0x0f);
    assert_int_equal(ada->n_slices, 2);
    assert_int_equal(ada->slices[1].core, 50);
    assert_int_equal(ada->slices[1].memory, 2 * GIB);
    assert_string_equal(ada->slices[1].card->server->name, "right");
    assert_int_equal(bob->policy, TICKET_BURST_SHARE);
    assert_int_equal(bob->core_limit, 80);
    assert_true(bob->offline);
    /* Nobody could ask for a part of a card then. */
    assert_int_equal(ada->spatial, TICKET_SPATIAL_OFF);
    assert_int_equal(bob->spatial, TICKET_SPATIAL_OFF);
    assert_int_equal(ada->slices[0].card->core_given, 50);
    assert_int_equal(ada->slices[0].card->memory_given, GIB + GIB / 2);
}

/* --- promises --- */

static void
state_of_version_1_is_taken_over_whole(void **state)
{
    struct state *s = *state;

    state_sql(s, VERSION_1);
    state_load(s);
    sessions_are_as_they_were(s);
    assert_int_equal(s->pool->n_servers, 2);
    assert_int_equal(s->pool->n_cards, 2);
    assert_true(sched_pool_server_find(s->pool, "right")->drain_asked);
    assert_string_equal(sched_pool_server_find(s->pool, "right")->local,
                        "unix:/run/right");
    /* Numbers are not used again, and ids would differ even if they were. */
    assert_int_equal(sched_id_number(s->sessions.next_id), 9);
    assert_int_not_equal(sched_id_epoch(s->sessions.next_id), 0);
    state_drop(s);
    assert_int_equal(state_version(s), 6);
}

static void
state_that_was_taken_over_is_written_and_read_again(void **state)
{
    struct state *s = *state;
    struct sched_session_spec spec = {.owner = "eve@desk",
                                      .program = "part",
                                      .spatial = TICKET_SPATIAL_SM,
                                      .max_attachments = 1,
                                      .lease_ms = 1000};
    struct sched_decision decision = {.n_slices = 1};
    struct sched_session *session;
    struct gp_err err = {0};
    uint64_t id;

    state_sql(s, VERSION_1);
    state_load(s);
    assert_int_equal(sched_store_del_session(s->store, 3, &err), 0);
    sched_session_free(&s->sessions, sched_sessions_find(&s->sessions, 3));
    decision.slices[0] =
        (struct sched_slice){.card = sched_pool_server_find(s->pool, "right")->cards[0],
                             .core = 40,
                             .memory = GIB,
                             .in_space = true};
    assert_int_equal(sched_sessions_add(&s->sessions, &spec, &decision, NOW, &session),
                     0);
    if (sched_store_put_session(s->store, session, &err) < 0)
        fail_msg("%s", err.msg);
    id = session->id;
    assert_string_equal(session->name, "s9");
    state_drop(s);

    state_load(s);
    assert_null(sched_sessions_find(&s->sessions, 3));
    assert_non_null(sched_sessions_find(&s->sessions, 7));
    session = sched_sessions_find(&s->sessions, id);
    assert_non_null(session);
    assert_ptr_equal(sched_sessions_find_number(&s->sessions, 9), session);
    assert_int_equal(sched_id_number(s->sessions.next_id), 10);
    assert_int_not_equal(sched_id_epoch(s->sessions.next_id), sched_id_epoch(id));
    assert_int_equal(session->spatial, TICKET_SPATIAL_SM);
    assert_true(session->slices[0].in_space);
    state_drop(s);
}

static void
new_state_is_of_this_version(void **state)
{
    struct state *s = *state;

    state_load(s);
    assert_int_equal(s->pool->n_servers, 0);
    state_drop(s);
    assert_int_equal(state_version(s), 6);
}

static void
state_of_a_later_version_is_refused_and_left_alone(void **state)
{
    struct state *s = *state;
    struct gp_err err = {0};

    state_sql(s, "CREATE TABLE unknown (a INTEGER); PRAGMA user_version = 7;");
    assert_int_equal(sched_store_open(s->path, &s->store, &err), -EPROTO);
    assert_non_null(strstr(err.msg, "written by a newer gpupool-scheduler"));
    assert_int_equal(state_version(s), 7);
}

static void
state_that_cannot_be_taken_over_stays_as_it_was(void **state)
{
    struct state *s = *state;
    struct gp_err err = {0};

    /* Broken: it says version 1 and has no sessions to add a column to. */
    state_sql(s, "CREATE TABLE server (name TEXT); PRAGMA user_version = 1;");
    assert_int_equal(sched_store_open(s->path, &s->store, &err), -EIO);
    assert_non_null(strstr(err.msg, "no such table: session"));
    assert_int_equal(state_version(s), 1);
}

static void
number_that_comes_again_has_another_id(void **state)
{
    struct state *s = *state;
    uint64_t first;

    state_load(s);
    first = s->sessions.next_id;
    assert_int_equal(sched_id_number(first), 1);
    state_drop(s);
    unlink(s->path); /* the state is lost */
    state_load(s);
    assert_int_equal(sched_id_number(s->sessions.next_id), 1);
    assert_int_not_equal(s->sessions.next_id, first);
    state_drop(s);
}

/* What a transaction changes is the last of each key's changes. */
static void
session_that_ends_in_the_transaction_that_opened_it_is_not_there(void **state)
{
    struct state *s = *state;
    struct gp_err err = {0};

    state_sql(s, VERSION_1);
    state_load(s);
    assert_int_equal(
        sched_store_put_session(s->store, sched_sessions_find(&s->sessions, 7), &err),
        0);
    assert_int_equal(sched_store_del_session(s->store, 7, &err), 0);
    assert_int_equal(sched_store_commit(s->store, &err), 0);
    state_drop(s);
    state_load(s);
    assert_non_null(sched_sessions_find(&s->sessions, 3));
    assert_null(sched_sessions_find(&s->sessions, 7));
    state_drop(s);
}

/* A failed transaction's changes join the next one. */
static void
change_that_could_not_be_written_is_written_later(void **state)
{
    struct state *s = *state;
    struct gp_err err = {0};
    struct rlimit whole, none = {0};
    uint64_t serial;

    state_sql(s, VERSION_1);
    state_load(s);
    assert_int_equal(sched_store_del_session(s->store, 3, &err), 0);
    serial = sched_store_serial(s->store);
    /* No byte can be added to a file: as good as a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &whole);
    none.rlim_max = whole.rlim_max;
    setrlimit(RLIMIT_FSIZE, &none);
    assert_true(sched_store_commit(s->store, &err) < 0);
    assert_true(sched_store_dirty(s->store));
    assert_int_equal(sched_store_done(s->store), serial);
    setrlimit(RLIMIT_FSIZE, &whole);
    assert_int_equal(sched_store_del_session(s->store, 7, &err), 0);
    assert_int_equal(sched_store_commit(s->store, &err), 0);
    state_drop(s);
    state_load(s);
    assert_null(sched_sessions_find(&s->sessions, 3));
    assert_null(sched_sessions_find(&s->sessions, 7));
    state_drop(s);
}

#define PROMISE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(state_of_version_1_is_taken_over_whole),
        PROMISE(state_that_was_taken_over_is_written_and_read_again),
        PROMISE(number_that_comes_again_has_another_id),
        PROMISE(session_that_ends_in_the_transaction_that_opened_it_is_not_there),
        PROMISE(change_that_could_not_be_written_is_written_later),
        PROMISE(new_state_is_of_this_version),
        PROMISE(state_of_a_later_version_is_refused_and_left_alone),
        PROMISE(state_that_cannot_be_taken_over_stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
