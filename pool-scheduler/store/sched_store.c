/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_store.h"

#include "gp_err.h"
#include "sched_pool.h"
#include "sched_session.h"
#include "store.h"
#include "store_batch.h"
#include "store_check.h"
#include "store_records.h"
#include "store_sqlite.h"
#include "store_writer.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

struct sched_store {
    struct store *backend;
    struct store_writer *writer; /* NULL: writes wait */
    struct store_batch open;     /* collects */
    struct store_batch writing;  /* the writer's until it is done */
    uint64_t serial;             /* of @open, never 0 */
    uint64_t done;
    uint32_t epoch, last; /* of the number record */
    bool unchecked; /* a record without a checksum was read: an earlier version's */
    uint64_t last_group;
    bool failed; /* the last transaction was not written */
    struct gp_err failure;
    int failure_code;
    void (*ended)(void *arg, uint64_t serial, int r, const struct gp_err *err);
    void *arg;
};

int
sched_store_new(struct store *backend, struct sched_store **ret_store)
{
    struct sched_store *store = calloc(1, sizeof(*store));

    if (!store) {
        backend->ops->close(backend);
        return -ENOMEM;
    }
    store->backend = backend;
    store_batch_init(&store->open);
    store_batch_init(&store->writing);
    store->serial = 1;
    *ret_store = store;
    return 0;
}

int
sched_store_open(const char *path, struct sched_store **ret_store, struct gp_err *err)
{
    struct store *backend = NULL;
    int r = store_sqlite_open(path, &backend, err);

    return r < 0 ? r : sched_store_new(backend, ret_store);
}

void
sched_store_close(struct sched_store *store)
{
    if (!store)
        return;
    sched_store_commit(store, NULL);
    store_writer_free(store->writer);
    store->backend->ops->close(store->backend);
    store_batch_fini(&store->open);
    store_batch_fini(&store->writing);
    free(store);
}

/* ----------------------------------------------------------------- changes -- */

static int
change(struct sched_store *store, const char *key, uint8_t *value, size_t size,
       struct gp_err *err)
{
    int r = value ? store_check_add(key, &value, &size) : 0;

    if (r < 0)
        free(value);
    else
        r = store_batch_set(&store->open, key, value, size);
    return r < 0 ? gp_err_set(err, r, "state: %s", strerror(-r)) : 0;
}

int
sched_store_put_server(struct sched_store *store, const struct sched_server *server,
                       struct gp_err *err)
{
    char key[STORE_KEY_MAX];
    uint8_t *value = NULL;
    size_t size = 0;
    int r = store_server_pack(server, &value, &size);

    store_server_key(server->name, key);
    return r < 0 ? r : change(store, key, value, size, err);
}

int
sched_store_del_server(struct sched_store *store, const char *name, struct gp_err *err)
{
    char key[STORE_KEY_MAX];

    store_server_key(name, key);
    /* Behind the ends of its sessions, which may have come after an earlier change of
     * the server: a follower removes no server that sessions are on. */
    store_batch_forget(&store->open, key);
    return change(store, key, NULL, 0, err);
}

static int
put_number(struct sched_store *store, uint64_t id, struct gp_err *err)
{
    uint8_t *value = NULL;
    size_t size = 0;
    int r;

    store->epoch = sched_id_epoch(id);
    store->last = sched_id_number(id);
    r = store_number_pack(store->epoch, store->last, !store->unchecked, &value, &size);
    return r < 0 ? r : change(store, STORE_NUMBER, value, size, err);
}

int
sched_store_put_session(struct sched_store *store, const struct sched_session *session,
                        struct gp_err *err)
{
    char key[STORE_KEY_MAX];
    uint8_t *value = NULL;
    size_t size = 0;
    int r = put_number(store, session->id, err);

    if (!r)
        r = store_session_pack(session, &value, &size);
    store_session_key(session->id, key);
    return r < 0 ? r : change(store, key, value, size, err);
}

int
sched_store_del_session(struct sched_store *store, uint64_t id, struct gp_err *err)
{
    char key[STORE_KEY_MAX];

    store_session_key(id, key);
    return change(store, key, NULL, 0, err);
}

int
sched_store_put_account(struct sched_store *store, const struct sched_account *row,
                        struct gp_err *err)
{
    char key[STORE_KEY_MAX];
    uint8_t *value = NULL;
    size_t size = 0;
    int r = store_account_pack(row, &value, &size);

    store_account_key(row, key);
    return r < 0 ? r : change(store, key, value, size, err);
}

int
sched_store_del_account(struct sched_store *store, const struct sched_account *row,
                        struct gp_err *err)
{
    char key[STORE_KEY_MAX];

    store_account_key(row, key);
    return change(store, key, NULL, 0, err);
}

void
sched_store_undo_session(struct sched_store *store, uint64_t id)
{
    char key[STORE_KEY_MAX];

    store_session_key(id, key);
    /* A store whose transactions are bounded may have written that part of it. */
    if (!store_batch_forget(&store->open, key))
        change(store, key, NULL, 0, NULL);
}

void
sched_store_group_begin(struct sched_store *store)
{
    store->open.group = ++store->last_group;
}

void
sched_store_group_end(struct sched_store *store)
{
    store->open.group = 0;
}

/* ----------------------------------------------------------------- writing -- */

uint64_t
sched_store_serial(const struct sched_store *store)
{
    return store->serial;
}

uint64_t
sched_store_done(const struct sched_store *store)
{
    return store->done;
}

bool
sched_store_dirty(const struct sched_store *store)
{
    return store->open.n;
}

/* The transaction in store->writing has ended. */
static void
write_ended(void *arg, int r, size_t written, const struct gp_err *err)
{
    struct sched_store *store = arg;

    store->failure_code = r;
    store->failure = *err;
    if (r < 0) {
        store_batch_drop(&store->writing, written);
        store_batch_prepend(&store->open, &store->writing);
    } else {
        store_batch_fini(&store->writing);
    }
    store->done = store->serial - 1;
    if (store->ended)
        store->ended(store->arg, store->done, r, err);
}

int
sched_store_start(struct sched_store *store, struct gp_loop *loop,
                  void (*ended)(void *arg, uint64_t serial, int r,
                                const struct gp_err *err),
                  void *arg, struct gp_err *err)
{
    store->ended = ended;
    store->arg = arg;
    return store_writer_new(store->backend, loop, write_ended, store, &store->writer,
                            err);
}

static void
take_open(struct sched_store *store)
{
    store_batch_init(&store->writing);
    store_batch_prepend(&store->writing, &store->open);
    store->serial++;
}

void
sched_store_write(struct sched_store *store)
{
    struct gp_err err = {0};
    size_t written;
    int r;

    if (!store->open.n || (store->writer && store_writer_busy(store->writer)))
        return;
    take_open(store);
    if (store->writer) {
        store_writer_start(store->writer, &store->writing);
        return;
    }
    r = store_write_batch(store->backend, &store->writing, &written, &err);
    write_ended(store, r, written, &err);
}

int
sched_store_commit(struct sched_store *store, struct gp_err *err)
{
    if (store->writer)
        store_writer_wait(store->writer);
    if (!store->open.n)
        return 0;
    sched_store_write(store);
    if (store->writer)
        store_writer_wait(store->writer);
    return store->failure_code < 0
               ? gp_err_set(err, store->failure_code, "%s",
                            gp_err_msg(&store->failure, store->failure_code))
               : 0;
}

/* -------------------------------------------------------------------- load -- */

int
sched_store_load(struct sched_store *store, struct sched_pool *pool,
                 struct sched_sessions *sessions, uint64_t now_ns, struct gp_err *err)
{
    struct store_world world = {.pool = pool, .sessions = sessions, .now_ns = now_ns};
    bool shared = store->backend->ops->shared;
    int r;

    world.following = shared;
    r = store->backend->ops->load(store->backend, store_record_take, &world, err);
    if (!r && world.checked && *world.unchecked)
        r = gp_err_set(err, -EBADMSG, "%.60s has no checksum", world.unchecked);
    if (world.broken || r == -EBADMSG)
        r = store->backend->ops->damaged(store->backend, err);
    store->epoch = world.epoch;
    store->last = world.last;
    store->unchecked = *world.unchecked;
    return r;
}

int
sched_store_follow(struct sched_store *store, struct sched_pool *pool,
                   struct sched_sessions *sessions, uint64_t now_ns, const char *key,
                   const uint8_t *value, size_t size, struct gp_err *err)
{
    struct store_world world = {.pool = pool,
                                .sessions = sessions,
                                .now_ns = now_ns,
                                .epoch = store->epoch,
                                .last = store->last,
                                .following = true};
    int r = 0;

    if (value)
        r = store_record_take(&world, key, value, size, err);
    else
        store_record_drop(&world, key);
    store->unchecked |= *world.unchecked != 0;
    store->epoch = world.epoch;
    store->last = world.last;
    return r;
}

static bool
epoch_in_use(const struct sched_store *store, const struct sched_sessions *sessions,
             uint32_t epoch)
{
    const struct sched_session *s = NULL;

    if (!epoch || epoch == store->epoch)
        return true;
    while ((s = sched_sessions_next(sessions, s)))
        if (sched_id_epoch(s->id) == epoch)
            return true;
    return false;
}

int
sched_store_start_epoch(struct sched_store *store, struct sched_sessions *sessions,
                        struct gp_err *err)
{
    uint32_t epoch = 0;

    do {
        if (getrandom(&epoch, sizeof(epoch), 0) != sizeof(epoch))
            return gp_err_set(err, -EIO, "no random numbers");
        epoch &= INT32_MAX;
    } while (epoch_in_use(store, sessions, epoch));
    sessions->next_id = sched_id_make(epoch, store->last) + 1;
    return put_number(store, sched_id_make(epoch, store->last), err);
}
