/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A damaged state of the embedded store: it is read exactly as it was, or refused in
 * words that name the file and how to go on, and then it is left as it is.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_file.h"
#include "sched_account.h"
#include "sched_pool.h"
#include "sched_session.h"
#include "sched_store.h"
#include "store_check.h"
#include "store_records.h"

#include <dirent.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)
#define NOW (UINT64_C(5000000000))
#define CARDS 40
#define PAGE 4096

enum { DB, WAL, SERIAL, FILES };
static const char *const NAMES[FILES] = {"scheduler.db", "scheduler.db-wal",
                                         "scheduler.db-serial"};

struct image {
    char *bytes[FILES];
    size_t size[FILES];
};

struct disk {
    char dir[64], path[FILES][96];
    struct sched_store *store;
    struct sched_pool *pool;
    struct sched_sessions sessions;
    struct image killed, stopped; /* of the files after a kill, and after a stop */
    char *text;                   /* what the state is then */
    size_t text_size;
    unsigned seed;
};

static unsigned
below(struct disk *d, size_t n)
{
    return (unsigned)rand_r(&d->seed) % (unsigned)n;
}

/* ------------------------------------------------------------------- files -- */

static void
image_read(const struct disk *d, struct image *image)
{
    for (int i = 0; i < FILES; i++) {
        image->bytes[i] = NULL;
        image->size[i] = 0;
        if (access(d->path[i], R_OK) == 0)
            assert_int_equal(gp_file_read(d->path[i], 64 << 20, &image->bytes[i],
                                          &image->size[i], NULL),
                             0);
    }
}

static void
image_write(const struct disk *d, const struct image *image)
{
    for (int i = 0; i < FILES; i++) {
        FILE *f;

        unlink(d->path[i]);
        if (!image->bytes[i])
            continue;
        f = fopen(d->path[i], "w");
        assert_non_null(f);
        assert_int_equal(fwrite(image->bytes[i], 1, image->size[i], f), image->size[i]);
        fclose(f);
    }
}

static struct image
image_copy(const struct image *from)
{
    struct image copy = *from;

    for (int i = 0; i < FILES; i++)
        if (from->bytes[i]) {
            copy.bytes[i] = malloc(from->size[i] + 1);
            memcpy(copy.bytes[i], from->bytes[i], from->size[i]);
        }
    return copy;
}

static void
image_drop(struct image *image)
{
    for (int i = 0; i < FILES; i++) {
        free(image->bytes[i]);
        image->bytes[i] = NULL;
    }
}

/* ---------------------------------------------------------------- the state -- */

static int
disk_open(struct disk *d, struct gp_err *err)
{
    int r;

    d->pool = sched_pool_new();
    sched_sessions_init(&d->sessions, d->pool);
    r = sched_store_open(d->path[DB], &d->store, err);
    return r < 0 ? r : sched_store_load(d->store, d->pool, &d->sessions, NOW, err);
}

static void
disk_close(struct disk *d)
{
    sched_sessions_fini(&d->sessions);
    sched_pool_free(d->pool);
    sched_store_close(d->store);
    d->store = NULL;
}

static void
put_row(FILE *out, uint8_t *bytes, size_t size)
{
    fwrite(bytes, 1, size, out);
    fputc('\n', out);
    free(bytes);
}

/* Everything that was loaded, as the bytes that would be written. */
static char *
disk_text(const struct disk *d, size_t *ret_size)
{
    const uint64_t first[2] = {0};
    const struct sched_session *s = NULL;
    const struct sched_account *a =
        sched_account_at_least(&d->sessions.accounts, first);
    uint8_t *bytes;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, ret_size);

    for (const struct sched_server *v = d->pool->servers; v; v = v->next) {
        assert_int_equal(store_server_pack(v, &bytes, &size), 0);
        put_row(out, bytes, size);
    }
    while ((s = sched_sessions_next(&d->sessions, s))) {
        fprintf(out, "%016llx ", (unsigned long long)s->id);
        assert_int_equal(store_session_pack(s, &bytes, &size), 0);
        put_row(out, bytes, size);
    }
    for (; a; a = sched_account_next(&d->sessions.accounts, a)) {
        assert_int_equal(store_account_pack(a, &bytes, &size), 0);
        put_row(out, bytes, size);
    }
    fclose(out);
    return text;
}

static uint64_t
open_session(struct disk *d, unsigned i)
{
    struct sched_session_spec spec = {.owner = "ada@desk",
                                      .program = "train",
                                      .max_attachments = 1,
                                      .lease_ms = 1000};
    struct sched_decision decision = {.n_slices = 1};
    struct sched_session *session;
    struct sched_server *server = sched_pool_server_find(d->pool, "node");

    decision.slices[0] = (struct sched_slice){
        .card = server->cards[i % CARDS], .core = 1, .memory = GIB};
    assert_int_equal(sched_sessions_add(&d->sessions, &spec, &decision, NOW, &session),
                     0);
    assert_int_equal(sched_store_put_session(d->store, session, NULL), 0);
    return session->id;
}

/* Several transactions, of which a part is in the database and a part in its log. */
static void
live(struct disk *d)
{
    struct sched_card_facts facts = {.uuid = {1}, .memory = 80 * GIB, .sms = 4};
    struct sched_account *row;
    struct sched_server *server;
    struct sched_card *card;
    uint64_t ids[600];

    assert_int_equal(sched_pool_server_add(d->pool, "node", &server, NULL), 0);
    for (; facts.uuid[0] <= CARDS; facts.uuid[0]++)
        assert_int_equal(sched_pool_card_put(d->pool, server, &facts, &card, NULL), 0);
    assert_int_equal(sched_store_put_server(d->store, server, NULL), 0);
    assert_int_equal(sched_store_start_epoch(d->store, &d->sessions, NULL), 0);
    row = sched_account_get(&d->sessions.accounts, 20261123, "ada@desk");
    row->sums.core_ms = 5;
    assert_int_equal(sched_store_put_account(d->store, row, NULL), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
        ids[i] = open_session(d, i);
        if (i % 3 == 2) {
            sched_session_free(&d->sessions,
                               sched_sessions_find(&d->sessions, ids[i / 2]));
            assert_int_equal(sched_store_del_session(d->store, ids[i / 2], NULL), 0);
            ids[i / 2] = ids[i];
        }
        if (i % 2)
            assert_int_equal(sched_store_commit(d->store, NULL), 0);
    }
}

static int
setup(void **state)
{
    struct disk *d = calloc(1, sizeof(*d));
    char dir[] = "/tmp/ut-damage-XXXXXX";
    struct gp_err err = {0};

    d->seed = 18;
    assert_non_null(mkdtemp(dir));
    memcpy(d->dir, dir, sizeof(dir));
    for (int i = 0; i < FILES; i++)
        snprintf(d->path[i], sizeof(d->path[i]), "%s/%s", dir, NAMES[i]);
    if (disk_open(d, &err) < 0)
        fail_msg("%s", err.msg);
    live(d);
    d->text = disk_text(d, &d->text_size);
    image_read(d, &d->killed);
    disk_close(d);
    image_read(d, &d->stopped);
    assert_true(d->killed.size[WAL] > 100 * PAGE);
    assert_true(d->stopped.size[DB] > 10 * PAGE);
    *state = d;
    return 0;
}

static int
teardown(void **state)
{
    struct disk *d = *state;
    DIR *dir = opendir(d->dir);
    struct dirent *entry;

    while ((entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    assert_int_equal(rmdir(d->dir), 0);
    image_drop(&d->killed);
    image_drop(&d->stopped);
    free(d->text);
    free(d);
    return 0;
}

/* ------------------------------------------------------------------ promises -- */

/* A log that is empty is as good as none. */
static bool
image_same(const struct image *a, const struct image *b)
{
    for (int i = 0; i < FILES; i++)
        if (a->size[i] != b->size[i] ||
            (a->size[i] && memcmp(a->bytes[i], b->bytes[i], a->size[i]) != 0))
            return false;
    return true;
}

/* The files are @image, damaged as @how says.  True: refused. */
static bool
refused_or_whole(struct disk *d, const struct image *image, const char *how)
{
    struct gp_err err = {0};
    struct image after;
    char *text = NULL;
    size_t size;
    int r;

    image_write(d, image);
    r = disk_open(d, &err);
    if (!r) {
        text = disk_text(d, &size);
        if (size != d->text_size || memcmp(text, d->text, size) != 0)
            fail_msg("%s: something else was read", how);
    }
    disk_close(d);
    image_read(d, &after);
    if (r < 0 &&
        (!strstr(err.msg, d->path[DB]) || !strstr(err.msg, "Restore a copy") ||
         !strstr(err.msg, "move the files scheduler.db* away")) &&
        !strstr(err.msg, "written by a newer"))
        fail_msg("%s: refused with \"%s\"", how, err.msg);
    if (r < 0 && !image_same(image, &after))
        fail_msg("%s: refused (%s), and the files were changed", how, err.msg);
    image_drop(&after);
    free(text);
    return r < 0;
}

/* Flip some bits near each other, set bytes, clear a page, copy a page over another,
 * or cut the file. */
static void
harm(struct disk *d, struct image *image, int file, char how[80])
{
    char *bytes = image->bytes[file];
    size_t size = image->size[file];
    unsigned at = below(d, size), kind = below(d, 5), n = 1 + below(d, 8);
    unsigned page = at / PAGE * PAGE, other = below(d, size) / PAGE * PAGE;

    snprintf(how, 80, "%s, kind %u, at %u, %u", NAMES[file], kind, at, n);
    if (kind == 0)
        bytes[at] = (char)(bytes[at] ^ 1 << n % 8);
    else if (kind == 1)
        for (unsigned i = 0; i < n && at + i < size; i++)
            bytes[at + i] = (char)rand_r(&d->seed);
    else if (kind == 2)
        memset(bytes + page, 0, gp_min((size_t)PAGE, size - page));
    else if (kind == 3)
        memmove(bytes + page, bytes + other,
                gp_min((size_t)PAGE, size - gp_max(page, other)));
    else
        image->size[file] = at;
}

static void
damage_often(struct disk *d, const struct image *whole, int file, unsigned rounds)
{
    unsigned refused = 0;
    char how[80];

    assert_false(refused_or_whole(d, whole, "nothing"));
    for (unsigned i = 0; i < rounds; i++) {
        struct image image = image_copy(whole);

        harm(d, &image, file, how);
        refused += refused_or_whole(d, &image, how);
        image_drop(&image);
    }
    print_message("%u of %u refused\n", refused, rounds);
    assert_true(refused > rounds / 3);
}

static void
damaged_database_is_refused_or_read_whole(void **state)
{
    struct disk *d = *state;

    damage_often(d, &d->stopped, DB, 400);
}

static void
damaged_database_with_a_log_is_refused_or_read_whole(void **state)
{
    struct disk *d = *state;

    /* Most of its pages are in the log as well, and not read. */
    for (unsigned i = 0; i < 100; i++) {
        struct image image = image_copy(&d->killed);
        char how[80];

        if (image.size[DB])
            harm(d, &image, DB, how);
        refused_or_whole(d, &image, how);
        image_drop(&image);
    }
}

static void
damaged_log_is_refused_or_read_whole(void **state)
{
    struct disk *d = *state;

    damage_often(d, &d->killed, WAL, 200);
}

static void
state_of_which_a_file_is_missing_is_refused(void **state)
{
    struct disk *d = *state;
    struct image image = image_copy(&d->killed);

    free(image.bytes[WAL]);
    image.bytes[WAL] = NULL;
    image.size[WAL] = 0;
    assert_true(refused_or_whole(d, &image, "no log"));
    image_drop(&image);
    image = image_copy(&d->stopped);
    image.size[DB] = 0;
    assert_true(refused_or_whole(d, &image, "an empty file"));
    image_drop(&image);
}

/* What the words of a refusal advise. */
static void
state_that_was_moved_away_begins_anew(void **state)
{
    struct disk *d = *state;
    struct gp_err err = {0};

    for (int i = 0; i < FILES; i++)
        unlink(d->path[i]);
    assert_int_equal(disk_open(d, &err), 0);
    assert_int_equal(d->pool->n_servers, 0);
    disk_close(d);
    /* An older copy of the database alone: said, and taken when that is wanted. */
    image_write(d, &d->stopped);
    unlink(d->path[SERIAL]);
    assert_int_equal(disk_open(d, &err), 0);
    assert_int_equal(d->pool->n_servers, 1);
    disk_close(d);
}

static void
number_file_that_holds_no_number_is_refused(void **state)
{
    struct disk *d = *state;
    struct image image = image_copy(&d->stopped);
    struct gp_err err = {0};

    image.bytes[SERIAL][7] = 'x';
    image_write(d, &image);
    assert_int_equal(disk_open(d, &err), -EBADMSG);
    assert_non_null(strstr(err.msg, "scheduler.db-serial holds no number"));
    disk_close(d);
    image_drop(&image);
}

static void
sql(const struct disk *d, const char *text)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(d->path[DB], &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* A sound file whose values are not what a scheduler wrote. */
static void
garbage_in_a_record_is_refused(void **state)
{
    static const char *const changes[] = {
        "UPDATE state SET value = x'' WHERE key LIKE 'server/%'",
        "UPDATE state SET value = zeroblob(length(value)) WHERE key LIKE 'session/%'",
        "UPDATE state SET value = randomblob(60) WHERE key LIKE 'session/%'",
        "UPDATE state SET value = randomblob(60) WHERE key LIKE 'account/%'",
        "UPDATE state SET value = randomblob(60) WHERE key = 'number'",
        "UPDATE state SET value = zeroblob(100000) WHERE key = 'number'",
        "UPDATE state SET value = substr(value, 1, length(value) - 5) WHERE key LIKE "
        "'session/%'",
        "UPDATE state SET key = key || 'x' WHERE key LIKE 'session/%'",
        "UPDATE state SET key = 'session/0000000000000007' WHERE key = "
        "(SELECT min(key) FROM state WHERE key LIKE 'session/%')",
        "UPDATE state SET key = 'server/other' WHERE key LIKE 'server/%'",
        "DELETE FROM state WHERE key LIKE 'server/%'",
    };
    struct disk *d = *state;

    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        struct image image;

        image_write(d, &d->stopped);
        sql(d, changes[i]);
        image_read(d, &image);
        if (!refused_or_whole(d, &image, changes[i]))
            fail_msg("%s: it was taken", changes[i]);
        image_drop(&image);
    }
}

/* Records of a scheduler of before checksums are taken, and have them in the end. */
static void
records_without_checksums_are_taken_from_a_state_of_before(void **state)
{
    struct disk *d = *state;
    struct gp_err err = {0};
    struct image image;

    image_write(d, &d->stopped);
    sql(d, "UPDATE state SET value = substr(value, 1, length(value) - 5) WHERE key <> "
           "'serial' AND key <> 'number'; DELETE FROM state WHERE key IN ('serial', "
           "'number')");
    unlink(d->path[SERIAL]);
    image_read(d, &image);
    assert_false(refused_or_whole(d, &image, "a state of before"));
    image_drop(&image);
    /* Its number record does not say that all have checksums. */
    assert_int_equal(disk_open(d, &err), 0);
    assert_int_equal(sched_store_start_epoch(d->store, &d->sessions, &err), 0);
    disk_close(d);
    assert_int_equal(disk_open(d, &err), 0);
    disk_close(d);
}

static void
checksum_is_of_key_and_value(void **state)
{
    uint8_t *value = malloc(3);
    size_t size = 3, body;

    (void)state;
    memcpy(value, "abc", 3);
    assert_int_equal(store_check_add("session/1", &value, &size), 0);
    assert_int_equal(size, 8);
    body = size;
    assert_true(store_check_take("session/1", value, &body));
    assert_int_equal(body, 3);
    body = size;
    assert_false(store_check_take("session/2", value, &body));
    for (size_t bit = 0; bit < 8 * size; bit++) {
        value[bit / 8] ^= (uint8_t)(1 << bit % 8);
        body = size;
        assert_false(store_check_take("session/1", value, &body));
        value[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (body = 0; body < size;) {
        size_t cut = body++;

        assert_false(store_check_take("session/1", value, &cut));
    }
    free(value);
}

#define PROMISE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(damaged_database_is_refused_or_read_whole),
        PROMISE(damaged_database_with_a_log_is_refused_or_read_whole),
        PROMISE(damaged_log_is_refused_or_read_whole),
        PROMISE(state_of_which_a_file_is_missing_is_refused),
        PROMISE(state_that_was_moved_away_begins_anew),
        PROMISE(number_file_that_holds_no_number_is_refused),
        PROMISE(garbage_in_a_record_is_refused),
        PROMISE(records_without_checksums_are_taken_from_a_state_of_before),
        cmocka_unit_test(checksum_is_of_key_and_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
