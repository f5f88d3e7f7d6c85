/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's state on disk: files of earlier versions, and of later ones. */
#include "ut.h"

#include "gp_err.h"
#include "sched_pool.h"
#include "sched_session.h"
#include "sched_store.h"
#include "store.h"
#include "store_batch.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

    char serial[96];

    snprintf(serial, sizeof(serial), "%s-serial", s->path);
    unlink(serial);
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
    assert_int_equal(sched_store_open(s->path, &s->store, &err), -EBADMSG);
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

/* ------------------------------------------------------ bounded transactions -- */

/* A store as etcd is: its transactions are bounded, and it can stop between any two of
 * them.  The records are kept in memory. */
#define BOUND 7
static const struct store_bound BOUND_OF_PIECE = {.ops = BOUND, .bytes = SIZE_MAX};
struct bounded {
    struct store store;
    struct {
        char key[STORE_KEY_MAX];
        uint8_t *value;
        size_t size;
    } rows[4000];
    size_t n;
    unsigned left; /* transactions until it stops */
    int failure;   /* what it says then */
};

static void
bounded_put(struct bounded *b, const struct store_op *op)
{
    size_t i = 0;

    while (i < b->n && strcmp(b->rows[i].key, op->key) != 0)
        i++;
    if (i == b->n) {
        assert_true(b->n < ARRAY_SIZE(b->rows));
        snprintf(b->rows[i].key, sizeof(b->rows[i].key), "%s", op->key);
        b->n++;
    }
    free(b->rows[i].value);
    b->rows[i].value = NULL;
    if (!op->value)
        return;
    b->rows[i].size = op->size;
    b->rows[i].value = malloc(op->size + 1);
    memcpy(b->rows[i].value, op->value, op->size);
}

static int
bounded_write(struct store *store, const struct store_op *ops, size_t n,
              size_t *ret_written, struct gp_err *err)
{
    struct bounded *b = container_of(store, struct bounded, store);

    *ret_written = 0;
    while (*ret_written < n) {
        size_t piece =
            store_ops_piece(ops + *ret_written, n - *ret_written, BOUND_OF_PIECE);

        assert_in_range(piece, 1, BOUND);
        if (!b->left)
            return gp_err_set(err, b->failure, "stopped");
        b->left--;
        for (size_t i = 0; i < piece; i++)
            bounded_put(b, &ops[(*ret_written)++]);
    }
    return 0;
}

static int
bounded_load(struct store *store, store_row row, void *arg, struct gp_err *err)
{
    static const char *const KINDS[] = {STORE_NUMBER, STORE_SERVER, STORE_SESSION};
    struct bounded *b = container_of(store, struct bounded, store);
    int r = 0;

    for (size_t k = 0; k < ARRAY_SIZE(KINDS); k++)
        for (size_t i = 0; !r && i < b->n; i++)
            if (b->rows[i].value &&
                !strncmp(b->rows[i].key, KINDS[k], strlen(KINDS[k])))
                r = row(arg, b->rows[i].key, b->rows[i].value, b->rows[i].size, err);
    return r;
}

static int
bounded_damaged(const struct store *store, struct gp_err *err)
{
    (void)store;
    return gp_err_wrap(err, -EBADMSG, "damaged");
}

static void
bounded_close(struct store *store)
{
    (void)store; /* the test's */
}

static const struct store_ops BOUNDED = {
    .name = "bounded",
    .load = bounded_load,
    .write = bounded_write,
    .damaged = bounded_damaged,
    .close = bounded_close,
};

/* A scheduler's memory beside it, and what it opened as gangs. */
struct gangs {
    struct bounded *disk;
    struct sched_store *store;
    struct sched_pool *pool;
    struct sched_sessions sessions;
    const struct sched_server *server;
    unsigned opened;
    uint64_t ids[400][5];
    unsigned sizes[400];
    unsigned n;
};

static void
gangs_load(struct gangs *g)
{
    struct gp_err err = {0};

    assert_int_equal(sched_store_new(&g->disk->store, &g->store), 0);
    g->pool = sched_pool_new();
    sched_sessions_init(&g->sessions, g->pool);
    if (sched_store_load(g->store, g->pool, &g->sessions, NOW, &err) < 0)
        fail_msg("%s", err.msg);
}

static void
gangs_drop(struct gangs *g)
{
    sched_sessions_fini(&g->sessions);
    sched_pool_free(g->pool);
    sched_store_close(g->store);
}

static uint64_t
gangs_open(struct gangs *g)
{
    struct sched_session_spec spec = {.owner = "ada@desk",
                                      .program = "train",
                                      .max_attachments = 1,
                                      .lease_ms = 1000};
    struct sched_decision decision = {.n_slices = 1};
    struct sched_session *session;

    decision.slices[0] =
        (struct sched_slice){.card = g->server->cards[g->opened++ % g->server->n_cards],
                             .core = 1,
                             .memory = 1};
    assert_int_equal(sched_sessions_add(&g->sessions, &spec, &decision, NOW, &session),
                     0);
    assert_int_equal(sched_store_put_session(g->store, session, NULL), 0);
    return session->id;
}

/* One transaction's worth: sessions alone, and gangs. */
static void
gangs_turn(struct gangs *g, unsigned *seed)
{
    for (unsigned i = (unsigned)rand_r(seed) % 6; i; i--) {
        if (rand_r(seed) & 1) {
            gangs_open(g);
            continue;
        }
        g->sizes[g->n] = 2 + (unsigned)rand_r(seed) % 4;
        sched_store_group_begin(g->store);
        for (unsigned k = 0; k < g->sizes[g->n]; k++)
            g->ids[g->n][k] = gangs_open(g);
        sched_store_group_end(g->store);
        g->n++;
    }
}

/* What is on the disk, as the next scheduler finds it. */
static void
gangs_are_whole(const struct gangs *g)
{
    struct gangs after = {.disk = g->disk};

    gangs_load(&after);
    for (unsigned i = 0; i < g->n; i++) {
        unsigned there = 0;

        for (unsigned k = 0; k < g->sizes[i]; k++)
            there += sched_sessions_find(&after.sessions, g->ids[i][k]) != NULL;
        if (there && there < g->sizes[i])
            fail_msg("%u of %u members of gang %u are there", there, g->sizes[i], i);
    }
    gangs_drop(&after);
}

static void
gangs_begin(struct gangs *g, unsigned left, int failure)
{
    struct sched_card_facts facts = {.uuid = {1}, .memory = 80 * GIB, .sms = 4};
    struct sched_server *server;
    struct sched_card *card;

    *g = (struct gangs){.disk = calloc(1, sizeof(*g->disk))};
    g->disk->store.ops = &BOUNDED;
    g->disk->left = UINT32_MAX;
    gangs_load(g);
    assert_int_equal(sched_pool_server_add(g->pool, "node", &server, NULL), 0);
    for (; facts.uuid[0] <= 40; facts.uuid[0]++)
        assert_int_equal(sched_pool_card_put(g->pool, server, &facts, &card, NULL), 0);
    g->server = server;
    assert_int_equal(sched_store_put_server(g->store, server, NULL), 0);
    assert_int_equal(sched_store_start_epoch(g->store, &g->sessions, NULL), 0);
    assert_int_equal(sched_store_commit(g->store, NULL), 0);
    g->disk->left = left;
    g->disk->failure = failure;
}

static void
gangs_end(struct gangs *g)
{
    gangs_drop(g);
    for (size_t i = 0; i < g->disk->n; i++)
        free(g->disk->rows[i].value);
    free(g->disk);
    free(g);
}

static void
store_that_stops_between_transactions_has_whole_gangs(void **state)
{
    unsigned stopped = 0;

    (void)state;
    /* It stops before each transaction of the same random life. */
    for (unsigned left = 0; left < 60; left++) {
        struct gangs *g = calloc(1, sizeof(*g));
        unsigned seed = 18;
        int r = 0;

        gangs_begin(g, left, -ESTALE);
        for (unsigned i = 0; !r && i < 20; i++) {
            gangs_turn(g, &seed);
            r = sched_store_commit(g->store, NULL);
        }
        stopped += r < 0;
        gangs_are_whole(g);
        gangs_end(g);
    }
    assert_in_range(stopped, 15, 60);
}

/* A write that fails in the middle: what was refused for it is not there later, though
 * a part of it had been written. */
static void
open_that_failed_after_a_part_was_written_is_undone(void **state)
{
    for (unsigned left = 1; left < 6; left++) {
        struct gangs *g = calloc(1, sizeof(*g)), after = {0};
        uint64_t ids[4 * BOUND];
        struct sched_session *s = NULL;
        struct gp_err err = {0};

        gangs_begin(g, left - 1, -EREMOTE);
        for (unsigned i = 0; i < ARRAY_SIZE(ids); i++)
            ids[i] = gangs_open(g);
        if (sched_store_commit(g->store, &err) == 0)
            fail_msg("it was written with %u transactions", left - 1);
        for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
            sched_store_undo_session(g->store, ids[i]);
            sched_session_free(&g->sessions, sched_sessions_find(&g->sessions, ids[i]));
        }
        g->disk->left = UINT32_MAX;
        gangs_open(g);
        assert_int_equal(sched_store_commit(g->store, &err), 0);
        after.disk = g->disk;
        gangs_load(&after);
        for (unsigned i = 0; i < ARRAY_SIZE(ids); i++)
            assert_null(sched_sessions_find(&after.sessions, ids[i]));
        assert_non_null(sched_sessions_next(&after.sessions, s));
        gangs_drop(&after);
        gangs_end(g);
    }
    (void)state;
}

/* All of them, in their order, no group parted, none too large if no group is. */
static void
operations_are_cut_into_pieces_between_groups(void **state)
{
    unsigned seed = 5;

    (void)state;
    for (unsigned round = 0; round < 500; round++) {
        const struct store_bound most = {.ops = BOUND, .bytes = 100};
        struct store_op ops[60] = {{0}};
        size_t n = 1 + (size_t)rand_r(&seed) % 60, at = 0;
        uint64_t group = 0;

        for (size_t i = 0; i < n;) {
            size_t size = (size_t)rand_r(&seed) % 9; /* up to one too large */

            group++;
            for (size_t k = 0; k < gp_max(size, (size_t)1) && i < n; k++)
                ops[i++] = (struct store_op){
                    .key = "key",
                    .group = size ? group : 0,
                    .size = (size_t)rand_r(&seed) % 30, /* now and then one too large */
                };
            if (rand_r(&seed) % 20 == 0)
                ops[i - 1].size = 200;
        }
        while (at < n) {
            size_t piece = store_ops_piece(ops + at, n - at, most), bytes = 0;
            bool alone = piece == 1 ||
                         (ops[at].group && ops[at].group == ops[at + piece - 1].group);

            assert_in_range(piece, 1, n - at);
            for (size_t i = at; i < at + piece; i++)
                bytes += strlen(ops[i].key) + ops[i].size;
            assert_true((piece <= BOUND && bytes <= most.bytes) || alone);
            at += piece;
            if (at < n && ops[at].group)
                assert_int_not_equal(ops[at].group, ops[at - 1].group);
        }
    }
}

/* As systemd makes it of the state folder of a service with DynamicUser=. */
static void
state_in_a_folder_behind_a_link_is_opened(void **state)
{
    struct state *s = *state;
    char real[sizeof(s->path)], link[64];

    snprintf(link, sizeof(link), "%s", s->dir);
    memcpy(link + strlen(link) - 6, "linked", 6);
    unlink(link);
    assert_int_equal(symlink(s->dir, link), 0);
    memcpy(real, s->path, sizeof(real));
    snprintf(s->path, sizeof(s->path), "%s/state", link);
    state_load(s);
    state_drop(s);
    memcpy(s->path, real, sizeof(real));
    assert_int_equal(unlink(link), 0);
    assert_int_equal(state_version(s), 6);
}

/* Whoever reads "damaged" restores a copy, and loses what has happened since. */
static void
state_that_cannot_be_opened_is_not_called_damaged(void **state)
{
    struct state *s = *state;
    struct gp_err err = {0};
    char log[96];

    state_sql(s, VERSION_1);
    snprintf(log, sizeof(log), "%s-wal", s->path);
    assert_int_equal(mkdir(log, 0700), 0);
    assert_int_equal(sched_store_open(s->path, &s->store, &err), -EACCES);
    assert_null(strstr(err.msg, "damaged"));
    assert_non_null(strstr(err.msg, "unable to open"));
    assert_int_equal(rmdir(log), 0);
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
        PROMISE(state_in_a_folder_behind_a_link_is_opened),
        PROMISE(state_that_cannot_be_opened_is_not_called_damaged),
        cmocka_unit_test(store_that_stops_between_transactions_has_whole_gangs),
        cmocka_unit_test(open_that_failed_after_a_part_was_written_is_undone),
        cmocka_unit_test(operations_are_cut_into_pieces_between_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
