/* SPDX-License-Identifier: Apache-2.0 */
/* State versions 1 to 5 were tables with a column for each field. */
#include "gp_err.h"
#include "store.h"
#include "store.pb-c.h"
#include "store_sqlite.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define TABLES_VERSION 5

/* [n]: from version n to the next. */
static const char *const COLUMNS[TABLES_VERSION] = {
    [1] = "ALTER TABLE session ADD COLUMN spatial INTEGER NOT NULL DEFAULT 0;",
    [2] = "CREATE TABLE number (epoch INTEGER NOT NULL, last INTEGER NOT NULL) STRICT;"
          "INSERT INTO number SELECT 0, coalesce((SELECT seq FROM sqlite_sequence"
          " WHERE name = 'session'), 0);",
    [3] = "ALTER TABLE session ADD COLUMN client_key BLOB NOT NULL DEFAULT x'';",
    [4] = "ALTER TABLE session ADD COLUMN class TEXT NOT NULL DEFAULT '';"
          "ALTER TABLE session ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;",
};

static const char DROP[] = "DROP TABLE slice; DROP TABLE session; DROP TABLE card;"
                           "DROP TABLE server; DROP TABLE number;";

/* As many as any version of the scheduler gave to one server or session. */
#define PARTS_MAX 256

struct upgrade {
    sqlite3 *db;
    sqlite3_stmt *rows, *parts, *put;
};

static int
db_error(struct upgrade *u, struct gp_err *err)
{
    return gp_err_set(err, -EIO, "state: %s", sqlite3_errmsg(u->db));
}

static int
prepare(struct upgrade *u, const char *sql, sqlite3_stmt **ret, struct gp_err *err)
{
    if (!sql)
        return 0;
    return sqlite3_prepare_v2(u->db, sql, -1, ret, NULL) == SQLITE_OK
               ? 0
               : db_error(u, err);
}

static uint32_t
column_u32(sqlite3_stmt *st, int at)
{
    return (uint32_t)sqlite3_column_int64(st, at);
}

static char *
column_text(sqlite3_stmt *st, int at)
{
    const unsigned char *text = sqlite3_column_text(st, at);

    return text ? (char *)(uintptr_t)text : (char *)(uintptr_t) "";
}

static ProtobufCBinaryData
column_blob(sqlite3_stmt *st, int at)
{
    const void *data = sqlite3_column_blob(st, at);

    return (ProtobufCBinaryData){(size_t)sqlite3_column_bytes(st, at),
                                 (uint8_t *)(uintptr_t)data};
}

static int
put(struct upgrade *u, const char *key, const ProtobufCMessage *msg, struct gp_err *err)
{
    size_t size = protobuf_c_message_get_packed_size(msg);
    CLEANUP_FREE uint8_t *bytes = malloc(size ? size : 1);
    int step;

    if (!bytes)
        return -ENOMEM;
    protobuf_c_message_pack(msg, bytes);
    sqlite3_bind_text(u->put, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_blob(u->put, 2, bytes, (int)size, SQLITE_STATIC);
    step = sqlite3_step(u->put);
    sqlite3_reset(u->put);
    return step == SQLITE_DONE ? 0 : db_error(u, err);
}

/* Rows of u->parts for the row at u->rows, copied since a statement gives one row at a
 * time. */
static int
cards_of(struct upgrade *u, Gpupool__Store__StoreCard *cards, size_t *ret_n,
         struct gp_err *err)
{
    size_t n = 0;
    int step;

    sqlite3_reset(u->parts);
    sqlite3_bind_value(u->parts, 1, sqlite3_column_value(u->rows, 0));
    while ((step = sqlite3_step(u->parts)) == SQLITE_ROW && n < PARTS_MAX) {
        Gpupool__Store__StoreCard *c = &cards[n++];
        ProtobufCBinaryData uuid = column_blob(u->parts, 0);

        gpupool__store__store_card__init(c);
        c->uuid.data = malloc(uuid.len ? uuid.len : 1);
        c->name = strdup(column_text(u->parts, 2));
        if (!c->uuid.data || !c->name)
            return -ENOMEM;
        c->uuid.len = uuid.len;
        if (uuid.len)
            memcpy(c->uuid.data, uuid.data, uuid.len);
        c->index = column_u32(u->parts, 1);
        c->memory = (uint64_t)sqlite3_column_int64(u->parts, 3);
        c->sms = column_u32(u->parts, 4);
        c->cc_major = column_u32(u->parts, 5);
        c->cc_minor = column_u32(u->parts, 6);
    }
    *ret_n = n;
    return step == SQLITE_DONE ? 0 : db_error(u, err);
}

static int
one_server(struct upgrade *u, struct gp_err *err)
{
    Gpupool__Store__StoreServer msg = GPUPOOL__STORE__STORE_SERVER__INIT;
    Gpupool__Store__StoreCard cards[PARTS_MAX] = {0};
    Gpupool__Store__StoreCard *list[PARTS_MAX];
    char key[STORE_KEY_MAX];
    int r = cards_of(u, cards, &msg.n_cards, err);

    for (size_t i = 0; i < msg.n_cards; i++)
        list[i] = &cards[i];
    msg.cards = list;
    msg.endpoint = column_text(u->rows, 1);
    msg.version = column_text(u->rows, 2);
    msg.driver = column_text(u->rows, 3);
    msg.driver_version = column_u32(u->rows, 4);
    msg.drain = column_u32(u->rows, 5);
    msg.local = column_text(u->rows, 6);
    snprintf(key, sizeof(key), STORE_SERVER "%s", column_text(u->rows, 0));
    if (!r)
        r = put(u, key, &msg.base, err);
    for (size_t i = 0; i < PARTS_MAX; i++) {
        free(cards[i].uuid.data);
        if (cards[i].base.descriptor)
            free(cards[i].name);
    }
    return r;
}

static int
slices_of(struct upgrade *u, Gpupool__Store__StoreSlice *slices, uint8_t (*uuids)[16],
          size_t *ret_n, struct gp_err *err)
{
    size_t n = 0;
    int step;

    sqlite3_reset(u->parts);
    sqlite3_bind_value(u->parts, 1, sqlite3_column_value(u->rows, 0));
    while ((step = sqlite3_step(u->parts)) == SQLITE_ROW && n < PARTS_MAX) {
        ProtobufCBinaryData uuid = column_blob(u->parts, 0);

        if (uuid.len != sizeof(uuids[n]))
            return gp_err_set(err, -EBADMSG, "state: a bad slice");
        memcpy(uuids[n], uuid.data, uuid.len);
        gpupool__store__store_slice__init(&slices[n]);
        slices[n].card = (ProtobufCBinaryData){uuid.len, uuids[n]};
        slices[n].core = column_u32(u->parts, 1);
        slices[n].memory = (uint64_t)sqlite3_column_int64(u->parts, 2);
        n++;
    }
    *ret_n = n;
    return step == SQLITE_DONE ? 0 : db_error(u, err);
}

static int
one_session(struct upgrade *u, struct gp_err *err)
{
    Gpupool__Store__StoreSession msg = GPUPOOL__STORE__STORE_SESSION__INIT;
    Gpupool__Store__StoreSlice slices[PARTS_MAX], *list[PARTS_MAX];
    uint8_t uuids[PARTS_MAX][16];
    char key[STORE_KEY_MAX];
    int r = slices_of(u, slices, uuids, &msg.n_slices, err);

    for (size_t i = 0; i < msg.n_slices; i++)
        list[i] = &slices[i];
    msg.slices = list;
    msg.lease_key = column_blob(u->rows, 1);
    msg.owner = column_text(u->rows, 2);
    msg.program = column_text(u->rows, 3);
    msg.policy = column_u32(u->rows, 4);
    msg.core_limit = column_u32(u->rows, 5);
    msg.max_attachments = column_u32(u->rows, 6);
    msg.lease_ms = column_u32(u->rows, 7);
    msg.opened = (uint64_t)sqlite3_column_int64(u->rows, 8);
    msg.offline = column_u32(u->rows, 9);
    msg.spatial = column_u32(u->rows, 10);
    msg.client_key = column_blob(u->rows, 11);
    msg.class_name = column_text(u->rows, 12);
    msg.ends = (uint64_t)sqlite3_column_int64(u->rows, 13);
    snprintf(key, sizeof(key), STORE_SESSION "%016" PRIx64,
             (uint64_t)sqlite3_column_int64(u->rows, 0));
    return r < 0 ? r : put(u, key, &msg.base, err);
}

static int
one_number(struct upgrade *u, struct gp_err *err)
{
    Gpupool__Store__StoreNumber msg = GPUPOOL__STORE__STORE_NUMBER__INIT;

    msg.epoch = column_u32(u->rows, 0);
    msg.last = column_u32(u->rows, 1);
    return put(u, STORE_NUMBER, &msg.base, err);
}

static int
each(struct upgrade *u, const char *rows, const char *parts,
     int (*one)(struct upgrade *u, struct gp_err *err), struct gp_err *err)
{
    int step = SQLITE_DONE;
    int r = prepare(u, rows, &u->rows, err);

    if (!r)
        r = prepare(u, parts, &u->parts, err);
    while (!r && (step = sqlite3_step(u->rows)) == SQLITE_ROW)
        r = one(u, err);
    if (!r && step != SQLITE_DONE)
        r = db_error(u, err);
    sqlite3_finalize(u->rows);
    sqlite3_finalize(u->parts);
    u->rows = u->parts = NULL;
    return r;
}

int
store_sqlite_upgrade(struct sqlite3 *db, int version, struct gp_err *err)
{
    struct upgrade u = {.db = db};
    int r = 0;

    for (; !r && version < TABLES_VERSION; version++)
        if (sqlite3_exec(db, COLUMNS[version], NULL, NULL, NULL) != SQLITE_OK)
            r = db_error(&u, err);
    if (!r)
        r = prepare(&u, "INSERT INTO state VALUES (?1, ?2)", &u.put, err);
    if (!r)
        r = each(&u,
                 "SELECT name, endpoint, version, driver, driver_version, drain, local"
                 " FROM server",
                 "SELECT uuid, idx, name, memory, sms, cc_major, cc_minor FROM card"
                 " WHERE server = ?1 ORDER BY idx",
                 one_server, err);
    if (!r)
        r = each(&u,
                 "SELECT id, lease_key, owner, program, policy, core_limit,"
                 " max_attachments, lease_ms, opened, offline, spatial, client_key,"
                 " class, ends FROM session",
                 "SELECT card, core, memory FROM slice WHERE session = ?1 ORDER BY pos",
                 one_session, err);
    if (!r)
        r = each(&u, "SELECT epoch, last FROM number", NULL, one_number, err);
    sqlite3_finalize(u.put);
    if (!r && sqlite3_exec(db, DROP, NULL, NULL, NULL) != SQLITE_OK)
        r = db_error(&u, err);
    return r;
}
