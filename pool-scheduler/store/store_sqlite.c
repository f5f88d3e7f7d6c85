/* SPDX-License-Identifier: Apache-2.0 */
#include "store_sqlite.h"

#include "gp_err.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>

static const char SCHEMA[] =
    "CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "PRAGMA user_version = 6;";

enum stmt {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_PUT,
    ST_DEL,
    ST_LOAD,
    N_STMTS,
};

static const char *const SQL[N_STMTS] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_PUT] = "INSERT OR REPLACE INTO state VALUES (?1, ?2)",
    [ST_DEL] = "DELETE FROM state WHERE key = ?1",
    [ST_LOAD] = "SELECT key, value FROM state ORDER BY key",
};

struct store_sqlite {
    struct store store;
    sqlite3 *db;
    sqlite3_stmt *stmts[N_STMTS];
};

static int
db_error(sqlite3 *db, struct gp_err *err, const char *what)
{
    int code = sqlite3_errcode(db);

    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return gp_err_set(err, -EBUSY, "%s: another scheduler uses this state", what);
    return gp_err_set(err, code == SQLITE_FULL ? -ENOSPC : -EIO, "%s: %s", what,
                      sqlite3_errmsg(db));
}

static int
exec_sql(sqlite3 *db, const char *sql, struct gp_err *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : db_error(db, err, "state");
}

/* Run a statement that returns no rows. */
static int
run(struct store_sqlite *s, enum stmt which, struct gp_err *err)
{
    int r = sqlite3_step(s->stmts[which]) == SQLITE_DONE
                ? 0
                : db_error(s->db, err, "state");

    sqlite3_reset(s->stmts[which]);
    return r;
}

static int
write_op(struct store_sqlite *s, const struct store_op *op, struct gp_err *err)
{
    enum stmt which = op->value ? ST_PUT : ST_DEL;

    sqlite3_bind_text(s->stmts[which], 1, op->key, -1, SQLITE_STATIC);
    if (op->value)
        sqlite3_bind_blob(s->stmts[which], 2, op->value, (int)op->size, SQLITE_STATIC);
    return run(s, which, err);
}

static int
sqlite_write(struct store *store, const struct store_op *ops, size_t n,
             size_t *ret_written, struct gp_err *err)
{
    struct store_sqlite *s = container_of(store, struct store_sqlite, store);
    int r = run(s, ST_BEGIN, err);

    *ret_written = 0; /* all, or none */
    if (r < 0)
        return r;
    for (size_t i = 0; !r && i < n; i++)
        r = write_op(s, &ops[i], err);
    if (!r)
        r = run(s, ST_COMMIT, err);
    /* A full disk may have rolled the transaction back already. */
    if (r < 0 && !sqlite3_get_autocommit(s->db))
        run(s, ST_ROLLBACK, NULL);
    return r;
}

static int
sqlite_load(struct store *store, store_row row, void *arg, struct gp_err *err)
{
    struct store_sqlite *s = container_of(store, struct store_sqlite, store);
    sqlite3_stmt *st = s->stmts[ST_LOAD];
    int step = SQLITE_DONE, r = 0;

    while (!r && (step = sqlite3_step(st)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(st, 0);

        r = row(arg, key ? key : "", sqlite3_column_blob(st, 1),
                (size_t)sqlite3_column_bytes(st, 1), err);
    }
    if (!r && step != SQLITE_DONE)
        r = db_error(s->db, err, "state");
    sqlite3_reset(st);
    return r;
}

static void
sqlite_close(struct store *store)
{
    struct store_sqlite *s = container_of(store, struct store_sqlite, store);

    for (int i = 0; i < N_STMTS; i++)
        sqlite3_finalize(s->stmts[i]);
    sqlite3_close(s->db);
    free(s);
}

static const struct store_ops OPS = {
    .name = "sqlite",
    .load = sqlite_load,
    .write = sqlite_write,
    .close = sqlite_close,
};

/* -------------------------------------------------------------------- open -- */

static int
schema_version(sqlite3 *db, const char *path, int *ret_version, struct gp_err *err)
{
    sqlite3_stmt *st = NULL;
    int r = 0;

    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW)
        r = db_error(db, err, path);
    else
        *ret_version = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return r;
}

static int
schema_check(sqlite3 *db, const char *path, struct gp_err *err)
{
    int version = 0;
    int r = schema_version(db, path, &version, err);

    if (r < 0 || version == STORE_SQLITE_VERSION)
        return r;
    if (version > STORE_SQLITE_VERSION)
        return gp_err_set(err, -EPROTO,
                          "%s: written by a newer gpupool-scheduler (state version %d, "
                          "this one knows %d)",
                          path, version, STORE_SQLITE_VERSION);
    r = exec_sql(db, SCHEMA, err);
    return r < 0 || !version ? r : store_sqlite_upgrade(db, version, err);
}

static int
setup(struct store_sqlite *s, const char *path, struct gp_err *err)
{
    int r;

    /* Exclusive: a second scheduler on the same state is an accident. */
    r = exec_sql(s->db,
                 "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                 "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
                 err);
    if (!r)
        r = schema_check(s->db, path, err);
    if (!r)
        r = exec_sql(s->db, "COMMIT", err);
    for (int i = 0; !r && i < N_STMTS; i++)
        if (sqlite3_prepare_v3(s->db, SQL[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->stmts[i], NULL) != SQLITE_OK)
            r = db_error(s->db, err, path);
    return r;
}

int
store_sqlite_open(const char *path, struct store **ret_store, struct gp_err *err)
{
    struct store_sqlite *s;
    int fd, r;

    /* It holds lease keys: made here so that no umask opens it to others. */
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    /* Before SQLite opens it: closing any descriptor of a file drops the process's
     * locks on it. */
    close(fd);
    s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->store.ops = &OPS;
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
                        NULL) != SQLITE_OK)
        r = s->db ? db_error(s->db, err, path) : -ENOMEM;
    else
        r = setup(s, path, err);
    if (r < 0)
        sqlite_close(&s->store);
    else
        *ret_store = &s->store;
    return r;
}
