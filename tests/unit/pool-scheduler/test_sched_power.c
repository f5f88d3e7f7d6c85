/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a power cut leaves of the scheduler's state.
 *
 * This program has the C library's file functions to itself: every write, truncation
 * and flush of the state's files is recorded.  A power cut at any point leaves of each
 * file what was flushed, and of the later writes any that the disk happened to take;
 * the test makes those files and reads them.
 */
#include "ut.h"

#include "gp_err.h"
#include "sched_pool.h"
#include "sched_session.h"
#include "sched_store.h"
#include "ut_sched.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIB_1 (UINT64_C(1) << 30)
#define NOW (UINT64_C(5000000000))

/* ---------------------------------------------------------- the recorded disk -- */

enum { EV_WRITE, EV_TRUNCATE, EV_FLUSH, EV_ANSWER };

struct event {
    int kind, file;
    off_t at; /* of a write; the size of a truncation; the number of an answer */
    size_t size;
    uint8_t *data;
};

#define FILES 3 /* the database, its write-ahead log, the last transaction's number */
static const char *const file_names[FILES] = {"state", "state-wal", "state-serial"};
#define EVENTS_MAX 20000
static struct event events[EVENTS_MAX];
static unsigned n_events;
static bool recording;

/* Shared with a scheduler that this program forks: flushes wait while it is set, and
 * count. */
static struct gate {
    atomic_bool closed;
    atomic_uint waiting;
} * gate;

static struct event *
record(int kind, int fd, off_t at)
{
    char link[32], path[128] = "";
    int file = 0;

    if (!recording || n_events == EVENTS_MAX)
        return NULL;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (fd >= 0 && readlink(link, path, sizeof(path) - 1) < 0)
        return NULL;
    while (fd >= 0 && file < FILES &&
           strcmp(strrchr(path, '/') + 1, file_names[file]) != 0)
        file++;
    if (file == FILES)
        return NULL;
    events[n_events] = (struct event){.kind = kind, .file = file, .at = at};
    return &events[n_events++];
}

static ssize_t
record_write(int fd, const void *data, size_t size, off_t at)
{
    ssize_t n = syscall(SYS_pwrite64, fd, data, size, at);
    struct event *ev = n > 0 ? record(EV_WRITE, fd, at) : NULL;

    if (ev) {
        ev->size = (size_t)n;
        ev->data = malloc((size_t)n);
        memcpy(ev->data, data, (size_t)n);
    }
    return n;
}

GP_EXPORT ssize_t
pwrite(int fd, const void *data, size_t size, off_t at)
{
    return record_write(fd, data, size, at);
}

GP_EXPORT ssize_t
pwrite64(int fd, const void *data, size_t size, off_t at)
{
    return record_write(fd, data, size, at);
}

GP_EXPORT int
ftruncate(int fd, off_t size)
{
    record(EV_TRUNCATE, fd, size);
    return (int)syscall(SYS_ftruncate, fd, size);
}

GP_EXPORT int
ftruncate64(int fd, off_t size)
{
    return ftruncate(fd, size);
}

static int
record_flush(int fd)
{
    if (gate && atomic_load(&gate->closed)) {
        atomic_fetch_add(&gate->waiting, 1);
        while (atomic_load(&gate->closed))
            usleep(1000);
    }
    record(EV_FLUSH, fd, 0);
    return 0; /* the machine stays on: nothing needs to reach its disk */
}

GP_EXPORT int
fsync(int fd)
{
    return record_flush(fd);
}

GP_EXPORT int
fdatasync(int fd)
{
    return record_flush(fd);
}

/* --------------------------------------------------------------- the power cut -- */

struct image {
    uint8_t *bytes;
    size_t size;
    bool exists;
};

static void
image_apply(struct image *image, const struct event *ev)
{
    size_t end = ev->kind == EV_WRITE ? (size_t)ev->at + ev->size : (size_t)ev->at;

    if (end > image->size || ev->kind == EV_TRUNCATE) {
        image->bytes = realloc(image->bytes, end ? end : 1);
        if (end > image->size)
            memset(image->bytes + image->size, 0, end - image->size);
        image->size = end;
    }
    if (ev->kind == EV_WRITE)
        memcpy(image->bytes + ev->at, ev->data, ev->size);
    image->exists = true;
}

/* The files after a cut before event @cut.  Of what was not flushed, the disk took
 * nothing (@luck 0), everything (1), or some (2). */
static void
image_make(struct image images[FILES], unsigned cut, int luck, unsigned *seed)
{
    for (int file = 0; file < FILES; file++) {
        unsigned flushed = 0;

        for (unsigned i = 0; i < cut; i++)
            if (events[i].kind == EV_FLUSH && events[i].file == file)
                flushed = i;
        for (unsigned i = 0; i < cut; i++) {
            bool took = luck == 1 || (luck == 2 && rand_r(seed) & 1);

            if (events[i].file == file && events[i].kind <= EV_TRUNCATE &&
                (i < flushed || took))
                image_apply(&images[file], &events[i]);
        }
    }
}

static void
image_save(const struct image images[FILES], const char *dir)
{
    char path[300];

    for (int i = 0; i < FILES; i++) {
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", dir, file_names[i]);
        unlink(path);
        if (!images[i].exists)
            continue;
        f = fopen(path, "w");
        assert_non_null(f);
        fwrite(images[i].bytes, 1, images[i].size, f);
        fclose(f);
    }
}

/* ---------------------------------------------------------------- what is done -- */

struct disk {
    char dir[64], path[80], copy[80];
    struct sched_store *store;
    struct sched_pool *pool;
    struct sched_sessions sessions;
    unsigned opened;
};

/* Each answer: which session it was about, and whether that is there from then on. */
static struct {
    uint64_t id;
    bool open;
} answers[EVENTS_MAX];
static unsigned n_answers;

/* Sessions that were opened as one gang, none of which was closed. */
#define GANG 3
static uint64_t gangs[200][GANG];
static unsigned n_gangs;

static void
answer(uint64_t id, bool open)
{
    answers[n_answers].id = id;
    answers[n_answers].open = open;
    record(EV_ANSWER, -1, (off_t)n_answers++);
}

static void
disk_open(struct disk *d, const char *path)
{
    struct gp_err err = {0};

    d->pool = sched_pool_new();
    sched_sessions_init(&d->sessions, d->pool);
    if (sched_store_open(path, &d->store, &err) < 0 ||
        sched_store_load(d->store, d->pool, &d->sessions, NOW, &err) < 0)
        fail_msg("%s", err.msg);
}

static void
disk_close(struct disk *d)
{
    sched_sessions_fini(&d->sessions);
    sched_pool_free(d->pool);
    sched_store_close(d->store);
}

static int
setup(void **state)
{
    struct disk *d = calloc(1, sizeof(*d));

    snprintf(d->dir, sizeof(d->dir), "/tmp/ut-power-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    snprintf(d->path, sizeof(d->path), "%s/state", d->dir);
    snprintf(d->copy, sizeof(d->copy), "%s/cut", d->dir);
    mkdir(d->copy, 0700);
    *state = d;
    return 0;
}

static int
teardown(void **state)
{
    struct disk *d = *state;
    char rm[] = "rm", option[] = "-r", *argv[] = {rm, option, d->dir, NULL};
    int status;
    pid_t pid;

    assert_int_equal(posix_spawnp(&pid, rm, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    free(d);
    return 0;
}

static uint64_t
open_session(struct disk *d)
{
    struct sched_session_spec spec = {.owner = "ada@desk",
                                      .program = "train",
                                      .max_attachments = 1,
                                      .lease_ms = 1000};
    struct sched_decision decision = {.n_slices = 1};
    struct sched_session *session;
    const struct sched_server *server = sched_pool_server_find(d->pool, "node");
    struct gp_err err = {0};

    decision.slices[0] =
        (struct sched_slice){.card = server->cards[d->opened++ % server->n_cards],
                             .core = 1,
                             .memory = GIB_1};
    assert_int_equal(sched_sessions_add(&d->sessions, &spec, &decision, NOW, &session),
                     0);
    assert_int_equal(sched_store_put_session(d->store, session, &err), 0);
    return session->id;
}

static void
close_session(struct disk *d, uint64_t id)
{
    struct gp_err err = {0};

    sched_session_free(&d->sessions, sched_sessions_find(&d->sessions, id));
    assert_int_equal(sched_store_del_session(d->store, id, &err), 0);
}

static void
add_cards(struct disk *d)
{
    struct sched_card_facts facts = {.uuid = {1}, .memory = 80 * GIB_1, .sms = 4};
    struct sched_server *server;
    struct sched_card *card;
    struct gp_err err = {0};

    assert_int_equal(sched_pool_server_add(d->pool, "node", &server, &err), 0);
    for (; facts.uuid[0] <= 8; facts.uuid[0]++)
        assert_int_equal(sched_pool_card_put(d->pool, server, &facts, &card, &err), 0);
    assert_int_equal(sched_store_put_server(d->store, server, &err), 0);
}

static void
commit(struct disk *d)
{
    struct gp_err err = {0};

    if (sched_store_commit(d->store, &err) < 0)
        fail_msg("%s", err.msg);
}

/* With others around it, in one commit. */
static void
open_gang(struct disk *d)
{
    sched_store_group_begin(d->store);
    for (unsigned i = 0; i < GANG; i++)
        gangs[n_gangs][i] = open_session(d);
    sched_store_group_end(d->store);
    n_gangs++;
}

/* A life of the scheduler: opens and closes, alone, several in one commit, and gangs.
 */
static void
live(struct disk *d, unsigned rounds, unsigned *seed)
{
    uint64_t open[12], opened[3];
    unsigned n = 0;

    add_cards(d);
    assert_int_equal(sched_store_start_epoch(d->store, &d->sessions, NULL), 0);
    commit(d);
    for (unsigned i = 0; i < rounds; i++) {
        unsigned more = 1 + (unsigned)rand_r(seed) % 3;
        uint64_t closed = 0;

        if (n && (n + more > 12 || rand_r(seed) & 1)) {
            closed = open[--n];
            close_session(d, closed);
        }
        if (n + more > 12)
            more = 0;
        for (unsigned k = 0; k < more; k++)
            opened[k] = open[n++] = open_session(d);
        if (i % 5 == 4)
            open_gang(d);
        commit(d);
        if (closed)
            answer(closed, false);
        for (unsigned k = 0; k < more; k++)
            answer(opened[k], true);
    }
}

/* Everything that was answered before @cut is as it was answered. */
static void
check_cut(struct disk *d, unsigned cut, int luck, unsigned *seed)
{
    struct image images[FILES] = {0};
    struct disk after = {0};
    char path[160];

    image_make(images, cut, luck, seed);
    image_save(images, d->copy);
    snprintf(path, sizeof(path), "%s/state", d->copy);
    disk_open(&after, path);
    for (unsigned i = 0; i < cut; i++) {
        unsigned k = (unsigned)events[i].at;
        bool last = true;

        if (events[i].kind != EV_ANSWER)
            continue;
        /* A later change, answered or not, may have reached the disk. */
        for (unsigned j = k + 1; j < n_answers; j++)
            last &= answers[j].id != answers[k].id;
        if (last &&
            answers[k].open != !!sched_sessions_find(&after.sessions, answers[k].id))
            fail_msg("cut before event %u of %u, luck %d: session %llx was answered as "
                     "%s and is %s",
                     cut, n_events, luck, (unsigned long long)answers[k].id,
                     answers[k].open ? "open" : "closed",
                     answers[k].open ? "lost" : "there");
    }
    for (unsigned i = 0; i < n_gangs; i++) {
        unsigned there = 0;

        for (unsigned k = 0; k < GANG; k++)
            there += sched_sessions_find(&after.sessions, gangs[i][k]) != NULL;
        if (there && there < GANG)
            fail_msg("cut before event %u of %u, luck %d: %u of %d members of a gang",
                     cut, n_events, luck, there, GANG);
    }
    disk_close(&after);
    for (int i = 0; i < FILES; i++)
        free(images[i].bytes);
}

/* What the files are when the recording begins; a state that is being made has nothing
 * that was answered. */
static void
record_start(const struct disk *d)
{
    static const char *const suffixes[FILES] = {"", "-wal"};
    char path[120];

    for (int i = 0; i < FILES; i++) {
        struct event *ev = &events[n_events];
        struct stat st;
        FILE *f;

        snprintf(path, sizeof(path), "%s%s", d->path, suffixes[i]);
        f = fopen(path, "r");
        if (!f)
            continue;
        assert_int_equal(fstat(fileno(f), &st), 0);
        *ev = (struct event){.kind = EV_WRITE, .file = i, .size = (size_t)st.st_size};
        ev->data = malloc(ev->size + 1);
        assert_int_equal(fread(ev->data, 1, ev->size, f), ev->size);
        events[n_events + 1] = (struct event){.kind = EV_FLUSH, .file = i};
        n_events += 2;
        fclose(f);
    }
    recording = true;
}

/* --- promises --- */

static void
power_cut_loses_no_answer(void **state)
{
    struct disk *d = *state;
    unsigned seed = 18;

    unsigned first;

    disk_open(d, d->path);
    record_start(d);
    first = n_events;
    live(d, 60, &seed);
    recording = false;
    assert_in_range(n_answers, 60, EVENTS_MAX);
    assert_in_range(n_events, 200, EVENTS_MAX - 1);
    for (unsigned cut = first; cut <= n_events; cut++)
        for (int luck = 0; luck < 3; luck++)
            check_cut(d, cut, luck, &seed);
    disk_close(d);
}

static int
gate_setup(void **state)
{
    gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    return gate == MAP_FAILED ? -1 : ut_sched_setup(state);
}

static int
gate_teardown(void **state)
{
    int r;

    atomic_store(&gate->closed, false);
    r = ut_sched_teardown(state);
    munmap(gate, sizeof(*gate));
    gate = NULL;
    return r;
}

/* The flush of one client's session is not waited for by the others, and that client is
 * not answered before it. */
static void
open_is_answered_after_its_flush_and_holds_up_nobody(void **state)
{
    struct world *w = *state;
    int server, patient, other;
    reply_t *grant, *reply;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(10, GIB);
    char byte;

    server = ut_sched_join(w, "node-a", 1);
    other = ut_sched_dial(w);
    patient = ut_sched_dial(w);
    grant = ut_sched_granted(other, ut_sched_preference(10, GIB));

    atomic_store(&gate->closed, true);
    req.id = 7;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = &open;
    ut_sched_post(patient, &req);
    for (int i = 0; !atomic_load(&gate->waiting) && i < 20000; i++)
        usleep(1000);
    assert_true(atomic_load(&gate->waiting));
    /* Renewals and heartbeats go on while the disk is slow. */
    for (int i = 0; i < 3; i++) {
        reply = ut_sched_renew(other, grant->grant, false);
        assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
        ut_sched_drop(reply);
        ut_sched_drop(ut_sched_report(server, 0));
    }
    assert_int_equal(recv(patient, &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1);
    assert_int_equal(errno, EAGAIN);
    atomic_store(&gate->closed, false);
    reply = ut_sched_hear(patient);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(patient);
    close(other);
    close(server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(power_cut_loses_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(
            open_is_answered_after_its_flush_and_holds_up_nobody, gate_setup,
            gate_teardown),
    };

    return cmocka_run_group_tests_name("sched_power", tests, NULL, NULL);
}
