/* SPDX-License-Identifier: Apache-2.0 */
#include "store_sqlite.h"

#include "gp_err.h"
#include "gp_str.h"
#include "store.h"
#include "store_sqlite_serial.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number of the last transaction (store_sqlite_serial.h); no record of the pool. */
#define SERIAL_KEY "serial"

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
    ST_SERIAL,
    N_STMTS,
};

static const char *const SQL[N_STMTS] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_PUT] = "INSERT OR REPLACE INTO state VALUES (?1, ?2)",
    [ST_DEL] = "DELETE FROM state WHERE key = ?1",
    [ST_LOAD] = "SELECT key, value FROM state ORDER BY key",
    [ST_SERIAL] = "SELECT value FROM state WHERE key = '" SERIAL_KEY "'",
};

struct store_sqlite {
    struct store store;
    sqlite3 *db;
    sqlite3_stmt *stmts[N_STMTS];
    char *path;
    int serial_fd;
    uint64_t serial; /* of the last transaction */
};

static int
db_error(sqlite3 *db, struct gp_err *err, const char *what)
{
    int code = sqlite3_errcode(db);

    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return gp_err_set(err, -EBUSY, "%s: another scheduler uses this state", what);
    return gp_err_set(err,
                      code == SQLITE_FULL                               ? -ENOSPC
                      : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? -EBADMSG
                      : code == SQLITE_CANTOPEN || code == SQLITE_READONLY ||
                              code == SQLITE_PERM
                          ? -EACCES
                          : -EIO,
                      "%s: %s", what, sqlite3_errmsg(db));
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
write_serial(struct store_sqlite *s, uint64_t serial, struct gp_err *err)
{
    uint8_t bytes[sizeof(serial)];

    memcpy(bytes, &serial, sizeof(bytes));
    return write_op(
        s, &(struct store_op){.key = SERIAL_KEY, .value = bytes, .size = sizeof(bytes)},
        err);
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
    /* What was read is in use from now on: the log may be moved into the database. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    for (size_t i = 0; !r && i < n; i++)
        r = write_op(s, &ops[i], err);
    if (!r)
        r = write_serial(s, s->serial + 1, err);
    if (!r)
        r = run(s, ST_COMMIT, err);
    /* A full disk may have rolled the transaction back already. */
    if (r < 0 && !sqlite3_get_autocommit(s->db))
        run(s, ST_ROLLBACK, NULL);
    if (!r)
        store_sqlite_serial_write(s->serial_fd, ++s->serial);
    return r;
}

/* Says of what @err has how to go on; the files are as they were. */
static int
sqlite_damaged(const struct store *store, struct gp_err *err)
{
    const struct store_sqlite *s =
        container_of((struct store *)(uintptr_t)store, struct store_sqlite, store);
    struct gp_err why = err ? *err : (struct gp_err){0};

    return gp_err_set(
        err, -EBADMSG,
        "%.150s is damaged and was left as it is (%.120s). Restore a copy "
        "of its folder, or move the files %.150s* away to begin with no "
        "sessions, drains, cordons and accounts: servers end the sessions "
        "that run",
        s->path, gp_err_msg(&why, -EIO), strrchr(s->path, '/') + 1);
}

/* In the order of the keys, none twice: else pages are from somewhere else. */
static int
key_check(char last[STORE_KEY_MAX], const char *key, struct gp_err *err)
{
    if (!key || strlen(key) >= STORE_KEY_MAX || strcmp(last, key) >= 0)
        return gp_err_set(err, -EBADMSG, "a key that is in the wrong place");
    gp_str_copy(last, STORE_KEY_MAX, key);
    return 0;
}

static int
sqlite_load(struct store *store, store_row row, void *arg, struct gp_err *err)
{
    struct store_sqlite *s = container_of(store, struct store_sqlite, store);
    sqlite3_stmt *st = s->stmts[ST_LOAD];
    char last[STORE_KEY_MAX] = "";
    int step = SQLITE_DONE, r = 0;

    while (!r && (step = sqlite3_step(st)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(st, 0);

        r = key_check(last, key, err);
        if (!r && strcmp(key, SERIAL_KEY) != 0)
            r = row(arg, key, sqlite3_column_blob(st, 1),
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
    if (s->serial_fd >= 0)
        close(s->serial_fd);
    free(s->path);
    free(s);
}

static const struct store_ops OPS = {
    .name = "sqlite",
    .load = sqlite_load,
    .write = sqlite_write,
    .damaged = sqlite_damaged,
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

/* @written transactions are on the disk, by the file beside the database. */
static int
serial_check(const struct store_sqlite *s, uint64_t written, struct gp_err *err)
{
    return s->serial >= written
               ? 0
               : gp_err_set(err, -EBADMSG,
                            "the last %" PRIu64
                            " transactions are missing; without the "
                            "file %.60s-serial it is taken all the same",
                            written - s->serial, strrchr(s->path, '/') + 1);
}

static int
schema_check(struct store_sqlite *s, uint64_t written, struct gp_err *err)
{
    const char *path = s->path;
    sqlite3 *db = s->db;
    int version = 0;
    int r = schema_version(db, path, &version, err);

    if (r < 0 || version == STORE_SQLITE_VERSION)
        return r;
    if (!version && written)
        return serial_check(s, written, err); /* of an empty database */
    if (version > STORE_SQLITE_VERSION)
        return gp_err_set(err, -EPROTO,
                          "%s: written by a newer gpupool-scheduler (state version %d, "
                          "this one knows %d)",
                          path, version, STORE_SQLITE_VERSION);
    r = exec_sql(db, SCHEMA, err);
    return r < 0 || !version ? r : store_sqlite_upgrade(db, version, err);
}

/* What SQLite can tell of its pages: half a second for 500,000 sessions. */
static int
pages_check(sqlite3 *db, struct gp_err *err)
{
    sqlite3_stmt *st = NULL;
    const char *words;
    int r = 0;

    if (sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW)
        r = db_error(db, err, "its pages");
    else if ((words = (const char *)sqlite3_column_text(st, 0)) && strcmp(words, "ok"))
        r = gp_err_set(err, -EBADMSG, "its pages: %.100s", words);
    sqlite3_finalize(st);
    return r;
}

static int
read_serial(struct store_sqlite *s, struct gp_err *err)
{
    sqlite3_stmt *st = s->stmts[ST_SERIAL];
    int step = sqlite3_step(st), r = 0;

    if (step == SQLITE_ROW && sqlite3_column_bytes(st, 0) == sizeof(s->serial))
        memcpy(&s->serial, sqlite3_column_blob(st, 0), sizeof(s->serial));
    else if (step != SQLITE_DONE)
        r = db_error(s->db, err, "state");
    sqlite3_reset(st);
    return r;
}

static int
setup(struct store_sqlite *s, uint64_t written, struct gp_err *err)
{
    int r;

    /* Until something is written nothing is changed, not even the log's place. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    /* Exclusive: a second scheduler on the same state is an accident. */
    r = exec_sql(s->db, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA cell_size_check = ON",
                 err);
    if (!r)
        r = pages_check(s->db, err);
    if (!r)
        r = exec_sql(s->db,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                     "BEGIN IMMEDIATE",
                     err);
    if (!r)
        r = schema_check(s, written, err);
    if (!r)
        r = exec_sql(s->db, "COMMIT", err);
    for (int i = 0; !r && i < N_STMTS; i++)
        if (sqlite3_prepare_v3(s->db, SQL[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->stmts[i], NULL) != SQLITE_OK)
            r = db_error(s->db, err, "state");
    if (!r)
        r = read_serial(s, err);
    return r < 0 ? r : serial_check(s, written, err);
}

/* It holds lease keys: made here so that no umask opens it to others. */
static int
file_make(const char *path, bool *ret_empty, struct gp_err *err)
{
    CLEANUP_FREE char *serial = gp_str_printf("%s-serial", path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 && errno == ENOENT) {
        /* A state that was moved away, or never was: no transaction is missing. */
        if (serial)
            unlink(serial);
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    *ret_empty = lseek(fd, 0, SEEK_END) == 0;
    /* Before SQLite opens it: closing any descriptor of a file drops the process's
     * locks on it. */
    close(fd);
    return 0;
}

/* Another scheduler, a full disk, a newer version and files that this user may not
 * open are no damage. */
static bool
is_damage(int r)
{
    return r < 0 && r != -EBUSY && r != -ENOSPC && r != -EPROTO && r != -ENOMEM &&
           r != -EACCES;
}

/* SQLITE_OPEN_NOFOLLOW refuses a symbolic link anywhere in the path, and systemd makes
 * the state folder of a service with DynamicUser= one.  So SQLite gets the folder that
 * the link leads to, and only the file itself may not be a link. */
static int
real_path(const char *path, char **ret, struct gp_err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    CLEANUP_FREE char *folder =
        slash ? strndup(path, (size_t)gp_max(slash - path, 1)) : strdup(".");
    CLEANUP_FREE char *real = folder ? realpath(folder, NULL) : NULL;

    if (!folder)
        return -ENOMEM;
    if (!real)
        return gp_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    *ret = gp_str_printf("%s/%s", real[1] ? real : "", name);
    return *ret ? 0 : -ENOMEM;
}

static int
open_files(struct store_sqlite *s, struct gp_err *err)
{
    CLEANUP_FREE char *real = NULL;
    uint64_t written = 0;
    bool empty = false;
    int r = file_make(s->path, &empty, err);

    if (!r)
        r = store_sqlite_serial_open(s->path, &s->serial_fd, &written, err);
    if (!r)
        r = real_path(s->path, &real, err);
    if (r < 0)
        return r;
    if (empty && written)
        r = serial_check(s, written, err);
    else if (sqlite3_open_v2(real, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
                             NULL) != SQLITE_OK)
        r = s->db ? db_error(s->db, err, s->path) : -ENOMEM;
    else
        r = setup(s, written, err);
    return is_damage(r) ? sqlite_damaged(&s->store, err) : r;
}

int
store_sqlite_open(const char *path, struct store **ret_store, struct gp_err *err)
{
    struct store_sqlite *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return -ENOMEM;
    s->store.ops = &OPS;
    s->serial_fd = -1;
    s->path = strchr(path, '/') ? strdup(path) : gp_str_printf("./%s", path);
    r = s->path ? open_files(s, err) : -ENOMEM;
    if (r < 0)
        sqlite_close(&s->store);
    else
        *ret_store = &s->store;
    return r;
}
