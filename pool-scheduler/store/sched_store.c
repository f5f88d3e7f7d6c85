/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_store.h"

#include "gp_err.h"
#include "gp_str.h"
#include "sched_pool.h"
#include "sched_session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define SCHEMA_VERSION 5

static const char SCHEMA[] =
    "CREATE TABLE server (name TEXT PRIMARY KEY, endpoint TEXT NOT NULL, local TEXT "
    "NOT NULL,"
    " version TEXT NOT NULL, driver TEXT NOT NULL, driver_version INTEGER NOT NULL,"
    " drain INTEGER NOT NULL) STRICT;"
    "CREATE TABLE card (uuid BLOB PRIMARY KEY,"
    " server TEXT NOT NULL REFERENCES server(name), idx INTEGER NOT NULL,"
    " name TEXT NOT NULL, memory INTEGER NOT NULL, sms INTEGER NOT NULL,"
    " cc_major INTEGER NOT NULL, cc_minor INTEGER NOT NULL) STRICT;"
    "CREATE INDEX card_server ON card(server);"
    "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " lease_key BLOB NOT NULL, owner TEXT NOT NULL, program TEXT NOT NULL,"
    " policy INTEGER NOT NULL, core_limit INTEGER NOT NULL,"
    " max_attachments INTEGER NOT NULL, lease_ms INTEGER NOT NULL,"
    " opened INTEGER NOT NULL, offline INTEGER NOT NULL,"
    " spatial INTEGER NOT NULL DEFAULT 0,"
    " client_key BLOB NOT NULL DEFAULT x'',"
    " class TEXT NOT NULL DEFAULT '', ends INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE TABLE slice (session INTEGER NOT NULL REFERENCES session(id)"
    " ON DELETE CASCADE, pos INTEGER NOT NULL, card BLOB NOT NULL,"
    " core INTEGER NOT NULL, memory INTEGER NOT NULL,"
    " PRIMARY KEY (session, pos)) STRICT;"
    /* One row: the epoch of the last start, and the number given last
     * (sched_session.h).
     */
    "CREATE TABLE number (epoch INTEGER NOT NULL, last INTEGER NOT NULL) STRICT;"
    "INSERT INTO number VALUES (0, 0);"
    "PRAGMA user_version = 5;";

/* [n]: from version n to the next. */
static const char *const UPGRADES[SCHEMA_VERSION] = {
    [1] = "ALTER TABLE session ADD COLUMN spatial INTEGER NOT NULL DEFAULT 0;"
          "PRAGMA user_version = 2;",
    [2] = "CREATE TABLE number (epoch INTEGER NOT NULL, last INTEGER NOT NULL) STRICT;"
          "INSERT INTO number SELECT 0, coalesce((SELECT seq FROM sqlite_sequence"
          " WHERE name = 'session'), 0);"
          "PRAGMA user_version = 3;",
    [3] = "ALTER TABLE session ADD COLUMN client_key BLOB NOT NULL DEFAULT x'';"
          "PRAGMA user_version = 4;",
    [4] = "ALTER TABLE session ADD COLUMN class TEXT NOT NULL DEFAULT '';"
          "ALTER TABLE session ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;"
          "PRAGMA user_version = 5;",
};

enum stmt {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_PUT_SERVER,
    ST_DEL_SERVER,
    ST_DEL_CARDS,
    ST_PUT_CARD,
    ST_PUT_SESSION,
    ST_PUT_SLICE,
    ST_DEL_SESSION,
    ST_LOAD_SERVERS,
    ST_LOAD_CARDS,
    ST_LOAD_SESSIONS,
    ST_LOAD_SLICES,
    ST_LOAD_NUMBER,
    ST_PUT_NUMBER,
    ST_SAVE,
    ST_KEEP,
    ST_UNDO,
    N_STMTS,
};

static const char *const SQL[N_STMTS] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_PUT_SERVER] =
        "INSERT INTO server VALUES (?1, ?2, ?7, ?3, ?4, ?5, ?6)"
        " ON CONFLICT(name) DO UPDATE SET endpoint = ?2, local = ?7, version = ?3,"
        " driver = ?4, driver_version = ?5, drain = ?6",
    [ST_DEL_SERVER] = "DELETE FROM server WHERE name = ?1",
    [ST_DEL_CARDS] = "DELETE FROM card WHERE server = ?1",
    [ST_PUT_CARD] =
        "INSERT OR REPLACE INTO card VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [ST_PUT_SESSION] =
        "INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
        " ?12, ?13, ?14)",
    [ST_PUT_SLICE] = "INSERT INTO slice VALUES (?1, ?2, ?3, ?4, ?5)",
    [ST_DEL_SESSION] = "DELETE FROM session WHERE id = ?1",
    [ST_LOAD_SERVERS] = "SELECT name, endpoint, version, driver, driver_version, drain,"
                        " local FROM server ORDER BY rowid",
    [ST_LOAD_CARDS] = "SELECT uuid, server, idx, name, memory, sms, cc_major, cc_minor"
                      " FROM card ORDER BY server, idx",
    [ST_LOAD_SESSIONS] =
        "SELECT id, lease_key, owner, program, policy, core_limit,"
        " max_attachments, lease_ms, opened, offline, spatial, client_key, class,"
        " ends FROM session ORDER BY id",
    [ST_LOAD_SLICES] = "SELECT card, core, memory FROM slice WHERE session = ?1"
                       " ORDER BY pos",
    [ST_LOAD_NUMBER] = "SELECT epoch, last FROM number",
    [ST_PUT_NUMBER] = "UPDATE number SET epoch = ?1, last = ?2",
    [ST_SAVE] = "SAVEPOINT one",
    [ST_KEEP] = "RELEASE one",
    [ST_UNDO] = "ROLLBACK TO one",
};

struct sched_store {
    sqlite3 *db;
    sqlite3_stmt *stmts[N_STMTS];
    bool dirty; /* a transaction is open */
};

/* ------------------------------------------------------------- statements -- */

static int
db_error(struct sched_store *store, struct gp_err *err, const char *what)
{
    int code = sqlite3_errcode(store->db);

    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return gp_err_set(err, -EBUSY, "%s: another scheduler uses this state", what);
    return gp_err_set(err, code == SQLITE_FULL ? -ENOSPC : -EIO, "%s: %s", what,
                      sqlite3_errmsg(store->db));
}

static int
exec_sql(struct sched_store *store, const char *sql, struct gp_err *err)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : db_error(store, err, "state");
}

static sqlite3_stmt *
stmt_get(struct sched_store *store, enum stmt which)
{
    sqlite3_stmt *st = store->stmts[which];

    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return st;
}

/* Run a statement that returns no rows. */
static int
stmt_run(struct sched_store *store, enum stmt which, struct gp_err *err)
{
    sqlite3_stmt *st = store->stmts[which];
    int r = sqlite3_step(st) == SQLITE_DONE ? 0 : db_error(store, err, "state");

    sqlite3_reset(st);
    return r;
}

static int
simple(struct sched_store *store, enum stmt which, struct gp_err *err)
{
    stmt_get(store, which);
    return stmt_run(store, which, err);
}

static void
bind_u64(sqlite3_stmt *st, int at, uint64_t value)
{
    sqlite3_bind_int64(st, at, (sqlite3_int64)value);
}

static void
bind_text(sqlite3_stmt *st, int at, const char *text)
{
    sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static void
bind_blob(sqlite3_stmt *st, int at, const void *data, size_t size)
{
    sqlite3_bind_blob(st, at, data, (int)size, SQLITE_STATIC);
}

static uint64_t
column_u64(sqlite3_stmt *st, int at)
{
    return (uint64_t)sqlite3_column_int64(st, at);
}

static uint32_t
column_u32(sqlite3_stmt *st, int at)
{
    return (uint32_t)sqlite3_column_int64(st, at);
}

static const char *
column_text(sqlite3_stmt *st, int at)
{
    const unsigned char *text = sqlite3_column_text(st, at);

    return text ? (const char *)text : "";
}

static bool
column_blob(sqlite3_stmt *st, int at, void *dst, size_t size)
{
    if ((size_t)sqlite3_column_bytes(st, at) != size)
        return false;
    memcpy(dst, sqlite3_column_blob(st, at), size);
    return true;
}

/* ------------------------------------------------------------- open, close -- */

static int
schema_check(struct sched_store *store, const char *path, struct gp_err *err)
{
    sqlite3_stmt *st = NULL;
    int version;

    if (sqlite3_prepare_v2(store->db, "PRAGMA user_version", -1, &st, NULL) !=
            SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW) {
        sqlite3_finalize(st);
        return db_error(store, err, path);
    }
    version = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    if (version > SCHEMA_VERSION)
        return gp_err_set(err, -EPROTO,
                          "%s: written by a newer gpupool-scheduler (state version %d, "
                          "this one knows %d)",
                          path, version, SCHEMA_VERSION);
    if (!version)
        return exec_sql(store, SCHEMA, err);
    while (version < SCHEMA_VERSION) {
        int r = exec_sql(store, UPGRADES[version++], err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int
store_setup(struct sched_store *store, const char *path, struct gp_err *err)
{
    int r;

    /* Exclusive: a second scheduler on the same state is an accident. */
    r = exec_sql(store,
                 "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                 "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                 "BEGIN IMMEDIATE",
                 err);
    if (r < 0)
        return r;
    r = schema_check(store, path, err);
    if (r < 0)
        return r;
    r = exec_sql(store, "COMMIT", err);
    if (r < 0)
        return r;
    for (int i = 0; i < N_STMTS; i++)
        if (sqlite3_prepare_v3(store->db, SQL[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &store->stmts[i], NULL) != SQLITE_OK)
            return db_error(store, err, path);
    return 0;
}

int
sched_store_open(const char *path, struct sched_store **ret_store, struct gp_err *err)
{
    CLEANUP(sched_store_closep) struct sched_store *store = calloc(1, sizeof(*store));
    int fd, r;

    if (!store)
        return -ENOMEM;
    /* It holds lease keys: made here so that no umask opens it to others. */
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    /* Before SQLite opens it: closing any descriptor of a file drops the process's
     * locks on it. */
    close(fd);
    if (sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
                        NULL) != SQLITE_OK)
        return store->db ? db_error(store, err, path) : -ENOMEM;
    r = store_setup(store, path, err);
    if (r < 0)
        return r;
    *ret_store = TAKE_PTR(store);
    return 0;
}

void
sched_store_close(struct sched_store *store)
{
    if (!store)
        return;
    sched_store_commit(store, NULL);
    for (int i = 0; i < N_STMTS; i++)
        sqlite3_finalize(store->stmts[i]);
    sqlite3_close(store->db);
    free(store);
}

/* -------------------------------------------------------------------- put -- */

static int
put_cards(struct sched_store *store, const struct sched_server *server,
          struct gp_err *err)
{
    sqlite3_stmt *st = stmt_get(store, ST_DEL_CARDS);
    int r;

    bind_text(st, 1, server->name);
    r = stmt_run(store, ST_DEL_CARDS, err);
    for (unsigned i = 0; !r && i < server->n_cards; i++) {
        const struct sched_card_facts *f = &server->cards[i]->facts;

        /* A card that is gone is kept while sessions hold slices of it. */
        if (!server->cards[i]->present && !server->cards[i]->slices)
            continue;
        st = stmt_get(store, ST_PUT_CARD);
        bind_blob(st, 1, f->uuid, sizeof(f->uuid));
        bind_text(st, 2, server->name);
        bind_u64(st, 3, f->index);
        bind_text(st, 4, f->name);
        bind_u64(st, 5, f->memory);
        bind_u64(st, 6, f->sms);
        bind_u64(st, 7, f->cc_major);
        bind_u64(st, 8, f->cc_minor);
        r = stmt_run(store, ST_PUT_CARD, err);
    }
    return r;
}

static int
put_server_row(struct sched_store *store, const struct sched_server *server,
               struct gp_err *err)
{
    sqlite3_stmt *st = stmt_get(store, ST_PUT_SERVER);

    bind_text(st, 1, server->name);
    bind_text(st, 2, server->endpoint);
    bind_text(st, 3, server->version);
    bind_text(st, 4, server->driver);
    bind_u64(st, 5, server->driver_version);
    bind_u64(st, 6, server->drain_asked);
    bind_text(st, 7, server->local);
    return stmt_run(store, ST_PUT_SERVER, err);
}

/* Begin one change, which joins the open transaction or opens one. */
static int
begin(struct sched_store *store, struct gp_err *err)
{
    int r = 0;

    if (!store->dirty)
        r = simple(store, ST_BEGIN, err);
    store->dirty |= !r;
    return r < 0 ? r : simple(store, ST_SAVE, err);
}

/* End it: all or nothing, and nothing of the changes before it is touched. */
static int
finish(struct sched_store *store, int r, struct gp_err *err)
{
    if (r < 0)
        simple(store, ST_UNDO, NULL);
    /* A full disk may have rolled the whole transaction back already; the commit then
     * says so. */
    simple(store, ST_KEEP, NULL);
    return r;
}

int
sched_store_commit(struct sched_store *store, struct gp_err *err)
{
    int r = 0;

    if (!store->dirty)
        return 0;
    store->dirty = false;
    if (sqlite3_get_autocommit(store->db))
        return gp_err_set(err, -EIO, "state: earlier changes could not be written");
    r = simple(store, ST_COMMIT, err);
    if (r < 0)
        simple(store, ST_ROLLBACK, NULL);
    return r;
}

int
sched_store_put_server(struct sched_store *store, const struct sched_server *server,
                       struct gp_err *err)
{
    int r = begin(store, err);

    if (r < 0)
        return r;
    r = put_server_row(store, server, err);
    if (!r)
        r = put_cards(store, server, err);
    return finish(store, r, err);
}

int
sched_store_del_server(struct sched_store *store, const char *name, struct gp_err *err)
{
    int r = begin(store, err);

    if (r < 0)
        return r;
    bind_text(stmt_get(store, ST_DEL_CARDS), 1, name);
    r = stmt_run(store, ST_DEL_CARDS, err);
    if (!r) {
        bind_text(stmt_get(store, ST_DEL_SERVER), 1, name);
        r = stmt_run(store, ST_DEL_SERVER, err);
    }
    return finish(store, r, err);
}

static int
put_session_row(struct sched_store *store, const struct sched_session *s,
                struct gp_err *err)
{
    sqlite3_stmt *st = stmt_get(store, ST_PUT_SESSION);

    bind_u64(st, 1, s->id);
    bind_blob(st, 2, s->lease_key, sizeof(s->lease_key));
    bind_text(st, 3, s->owner->name);
    bind_text(st, 4, s->program);
    bind_u64(st, 5, s->policy);
    bind_u64(st, 6, s->core_limit);
    bind_u64(st, 7, s->max_attachments);
    bind_u64(st, 8, s->lease_ms);
    bind_u64(st, 9, s->opened_unix);
    bind_u64(st, 10, s->offline);
    bind_u64(st, 11, s->spatial);
    bind_blob(st, 12, s->client_key, s->bound ? sizeof(s->client_key) : 0);
    bind_text(st, 13, s->class_name);
    bind_u64(st, 14, s->ends_unix);
    return stmt_run(store, ST_PUT_SESSION, err);
}

static int
put_number(struct sched_store *store, uint64_t id, struct gp_err *err)
{
    sqlite3_stmt *st = stmt_get(store, ST_PUT_NUMBER);

    bind_u64(st, 1, sched_id_epoch(id));
    bind_u64(st, 2, sched_id_number(id));
    return stmt_run(store, ST_PUT_NUMBER, err);
}

static int
put_slices(struct sched_store *store, const struct sched_session *s, struct gp_err *err)
{
    int r = 0;

    for (uint32_t i = 0; !r && i < s->n_slices; i++) {
        const struct sched_slice *slice = &s->slices[i];
        sqlite3_stmt *st = stmt_get(store, ST_PUT_SLICE);

        bind_u64(st, 1, s->id);
        bind_u64(st, 2, i);
        bind_blob(st, 3, slice->card->facts.uuid, TICKET_UUID_SIZE);
        bind_u64(st, 4, slice->core);
        bind_u64(st, 5, slice->memory);
        r = stmt_run(store, ST_PUT_SLICE, err);
    }
    return r;
}

int
sched_store_put_session(struct sched_store *store, const struct sched_session *session,
                        struct gp_err *err)
{
    int r = begin(store, err);

    if (r < 0)
        return r;
    r = put_session_row(store, session, err);
    if (!r)
        r = put_slices(store, session, err);
    if (!r)
        r = put_number(store, session->id, err);
    return finish(store, r, err);
}

int
sched_store_del_session(struct sched_store *store, uint64_t id, struct gp_err *err)
{
    int r = begin(store, err);

    if (r < 0)
        return r;
    bind_u64(stmt_get(store, ST_DEL_SESSION), 1, id);
    return finish(store, stmt_run(store, ST_DEL_SESSION, err), err);
}

/* ------------------------------------------------------------------- load -- */

/* Calls @row for every row of a statement; ends at the first error. */
static int
each_row(struct sched_store *store, enum stmt which,
         int (*row)(sqlite3_stmt *st, void *arg, struct gp_err *err), void *arg,
         struct gp_err *err)
{
    sqlite3_stmt *st = store->stmts[which];
    int step, r = 0;

    while (!r && (step = sqlite3_step(st)) == SQLITE_ROW)
        r = row(st, arg, err);
    if (!r && step != SQLITE_DONE)
        r = db_error(store, err, "state");
    sqlite3_reset(st);
    return r;
}

static int
load_server(sqlite3_stmt *st, void *arg, struct gp_err *err)
{
    struct sched_pool *pool = arg;
    struct sched_server *server;
    int r;

    r = sched_pool_server_add(pool, column_text(st, 0), &server, err);
    if (r < 0)
        return r;
    gp_str_copy(server->endpoint, sizeof(server->endpoint), column_text(st, 1));
    gp_str_copy(server->version, sizeof(server->version), column_text(st, 2));
    gp_str_copy(server->driver, sizeof(server->driver), column_text(st, 3));
    server->driver_version = column_u32(st, 4);
    server->drain_asked = column_u32(st, 5);
    gp_str_copy(server->local, sizeof(server->local), column_text(st, 6));
    return 0;
}

static int
load_card(sqlite3_stmt *st, void *arg, struct gp_err *err)
{
    struct sched_pool *pool = arg;
    struct sched_server *server = sched_pool_server_find(pool, column_text(st, 1));
    struct sched_card_facts facts = {0};
    struct sched_card *card;

    if (!server || !column_blob(st, 0, facts.uuid, sizeof(facts.uuid)))
        return gp_err_set(err, -EBADMSG, "state: a card without a server");
    facts.index = column_u32(st, 2);
    gp_str_copy(facts.name, sizeof(facts.name), column_text(st, 3));
    facts.memory = column_u64(st, 4);
    facts.sms = column_u32(st, 5);
    facts.cc_major = column_u32(st, 6);
    facts.cc_minor = column_u32(st, 7);
    return sched_pool_card_put(pool, server, &facts, &card, err);
}

struct load {
    struct sched_store *store;
    struct sched_pool *pool;
    struct sched_sessions *sessions;
    uint64_t now_ns;
    struct sched_decision decision; /* slices of the session being loaded */
    bool in_space;
    uint32_t epoch, last; /* of the last start, and given last */
};

static int
load_slice(sqlite3_stmt *st, void *arg, struct gp_err *err)
{
    struct load *load = arg;
    struct sched_slice *slice = &load->decision.slices[load->decision.n_slices];
    uint8_t uuid[TICKET_UUID_SIZE];

    if (load->decision.n_slices == TICKET_SLICES_MAX ||
        !column_blob(st, 0, uuid, sizeof(uuid)))
        return gp_err_set(err, -EBADMSG, "state: a bad slice");
    slice->card = sched_pool_card_find(load->pool, uuid);
    if (!slice->card)
        return gp_err_set(err, -EBADMSG, "state: a slice of an unknown card");
    slice->core = column_u32(st, 1);
    slice->memory = column_u64(st, 2);
    slice->in_space = load->in_space;
    load->decision.n_slices++;
    return 0;
}

static int
load_session(sqlite3_stmt *st, void *arg, struct gp_err *err)
{
    struct load *load = arg;
    struct sched_session *session;
    struct sched_session_spec spec = {.id = column_u64(st, 0)};
    uint8_t key[CTL_LEASE_KEY_SIZE];
    int r;

    if (!column_blob(st, 1, key, sizeof(key)))
        return gp_err_set(err, -EBADMSG, "state: session s%" PRIu64 " has no lease key",
                          spec.id);
    spec.lease_key = key;
    spec.owner = column_text(st, 2);
    spec.program = column_text(st, 3);
    spec.policy = (enum ticket_policy)column_u32(st, 4);
    spec.core_limit = column_u32(st, 5);
    spec.max_attachments = column_u32(st, 6);
    spec.lease_ms = column_u32(st, 7);
    spec.opened_unix = column_u64(st, 8);
    spec.offline = column_u32(st, 9);
    spec.spatial = (enum ticket_spatial)column_u32(st, 10);
    spec.bound = column_blob(st, 11, spec.client_key, sizeof(spec.client_key));
    spec.class_name = column_text(st, 12);
    spec.ends_unix = column_u64(st, 13);
    load->in_space = spec.spatial != TICKET_SPATIAL_OFF;
    load->decision.n_slices = 0;
    bind_u64(stmt_get(load->store, ST_LOAD_SLICES), 1, spec.id);
    r = each_row(load->store, ST_LOAD_SLICES, load_slice, load, err);
    if (r < 0)
        return gp_err_wrap(err, r, "session s%" PRIu64, spec.id);
    if (!load->decision.n_slices)
        return gp_err_set(err, -EBADMSG, "state: session s%" PRIu64 " has no slices",
                          spec.id);
    r = sched_sessions_add(load->sessions, &spec, &load->decision, load->now_ns,
                           &session);
    return r < 0 ? gp_err_wrap(err, r, "state: session s%" PRIu64, spec.id) : 0;
}

static int
load_number(sqlite3_stmt *st, void *arg, struct gp_err *err)
{
    struct load *load = arg;

    load->epoch = column_u32(st, 0);
    load->last = column_u32(st, 1);
    return 0;
}

static bool
epoch_in_use(const struct load *load, uint32_t epoch)
{
    const struct sched_session *s = NULL;

    if (!epoch || epoch == load->epoch)
        return true;
    while ((s = sched_sessions_next(load->sessions, s)))
        if (sched_id_epoch(s->id) == epoch)
            return true;
    return false;
}

/* A new epoch for this start, kept before the first session gets it. */
static int
start_epoch(struct load *load, struct gp_err *err)
{
    uint32_t epoch = 0;
    int r;

    do {
        if (getrandom(&epoch, sizeof(epoch), 0) != sizeof(epoch))
            return gp_err_set(err, -EIO, "no random numbers");
        epoch &= INT32_MAX;
    } while (epoch_in_use(load, epoch));
    load->sessions->next_id = sched_id_make(epoch, load->last) + 1;
    r = begin(load->store, err);
    if (r < 0)
        return r;
    r = put_number(load->store, sched_id_make(epoch, load->last), err);
    r = finish(load->store, r, err);
    return r < 0 ? r : sched_store_commit(load->store, err);
}

int
sched_store_load(struct sched_store *store, struct sched_pool *pool,
                 struct sched_sessions *sessions, uint64_t now_ns, struct gp_err *err)
{
    struct load load = {
        .store = store, .pool = pool, .sessions = sessions, .now_ns = now_ns};
    int r;

    r = each_row(store, ST_LOAD_SERVERS, load_server, pool, err);
    if (!r)
        r = each_row(store, ST_LOAD_CARDS, load_card, pool, err);
    if (!r)
        r = each_row(store, ST_LOAD_SESSIONS, load_session, &load, err);
    if (!r)
        r = each_row(store, ST_LOAD_NUMBER, load_number, &load, err);
    if (!r)
        r = start_epoch(&load, err);
    return r;
}
