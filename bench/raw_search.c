/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the best raw link on this machine: what ratios are taken against has
 * to be as good as a plain program can make it, and which setting that is differs from
 * machine to machine.
 *
 *   raw_search --out=FILE [--shm=1] [--core=N] [--peer-core=N] [--max-mib=N]
 *              [--only=call] [--turn-ms=N]
 *
 * For calls, and for copies up and down of each size, settings compete in three stages:
 * all of a grid, the best of them with further keys, and the best of those for longer.
 * Within a stage they take turns, so that a disturbance hits no single one.  Where both
 * ends are on one core the processor time of both is compared, which is what passes
 * when nothing else runs and hardly notices when something does; on two cores it is the
 * time that passes.  What was tried and found is printed; the winners go to FILE
 * (raw_setting.h).
 */
#include "raw_link.h"

#include "bench.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KIB 1024ul
#define MIB (1024ul * 1024ul)
#define SIZE_MAX_HERE (256 * MIB)
#define SETTINGS_MAX 256
#define PINGS 400
#define HOPELESS_NS                                                                    \
    400000 /* of a ping: whoever needs longer is not measured further                  \
            */
#define SHOWN 4

struct trial {
    struct raw_setting setting;
    struct bench_times turns;
    double ns;
};

struct search {
    struct raw_peer peer;
    struct trial trials[SETTINGS_MAX];
    size_t n;
    size_t size; /* of a copy; 0: calls */
    int down;
    char *host;
    size_t size_max;
    int one_core;
    uint64_t turn_ns; /* of calls, whose mean is compared then; 0: PINGS calls */
    int paced;        /* sockets pace unless they are told not to */
    int tried;
};

static void
add(struct search *s, const struct raw_setting *setting)
{
    if (s->n == SETTINGS_MAX) {
        fprintf(stderr, "raw_search: more than %d settings\n", SETTINGS_MAX);
        exit(2);
    }
    s->trials[s->n++] = (struct trial){.setting = *setting};
}

static void
act(struct search *s, struct raw_link *link)
{
    if (s->down)
        raw_link_move(link, NULL, 0, s->host, s->size);
    else
        raw_link_move(link, s->host, s->size, NULL, 0);
}

static long
repeats(const struct search *s)
{
    return s->size == 0          ? PINGS
           : s->size <= 64 * KIB ? 60
           : s->size <= 4 * MIB  ? 10
                                 : 1;
}

static uint64_t
cpu_of_both(const struct search *s)
{
    return bench_cpu_ns() + raw_peer_cpu_ns(&s->peer);
}

static uint64_t
mean_ping_ns(struct raw_link *link, uint64_t turn_ns)
{
    uint64_t begin = bench_now_ns(), now = begin, pings = 0;

    for (; now - begin < turn_ns; pings++) {
        raw_link_ping(link);
        now = bench_now_ns();
    }
    return (now - begin) / pings;
}

/* One turn of one setting. */
static void
take_turn(struct search *s, struct trial *t)
{
    struct bench_times times = {0};
    struct raw_link link;
    long warm = s->size ? 1 : 10;
    uint64_t cpu = 0;
    double took;

    raw_link_open(&link, &s->peer, &t->setting);
    if (!s->size && s->turn_ns) {
        bench_times_add(&t->turns, mean_ping_ns(&link, s->turn_ns));
        raw_link_close(&link);
        return;
    }
    for (long i = -warm; i < repeats(s); i++) {
        uint64_t start = bench_now_ns();

        act(s, &link);
        bench_times_add(&times, bench_now_ns() - start);
        if (i == -1 && !s->size && bench_times_percentile(&times, 50) > HOPELESS_NS)
            break;
        if (i == -1) {
            times.count = 0;
            cpu = cpu_of_both(s);
        }
    }
    took = bench_times_percentile(&times, 50);
    if (s->one_core && times.count == (size_t)repeats(s))
        took = (double)(cpu_of_both(s) - cpu) / (double)times.count;
    raw_link_close(&link);
    bench_times_add(&t->turns, (uint64_t)took);
    bench_times_free(&times);
}

static int
compare_trials(const void *left, const void *right)
{
    const struct trial *a = left, *b = right;

    return (a->ns > b->ns) - (a->ns < b->ns);
}

/* All settings in @turns turns; the best @keep remain, in order. */
static void
compete(struct search *s, int turns, size_t keep)
{
    for (int turn = 0; turn < turns; turn++)
        for (size_t i = 0; i < s->n; i++)
            take_turn(s, &s->trials[turn % 2 ? s->n - 1 - i : i]);
    s->tried += (int)s->n;
    for (size_t i = 0; i < s->n; i++) {
        s->trials[i].ns = bench_times_percentile(&s->trials[i].turns, 50);
        bench_times_free(&s->trials[i].turns);
    }
    qsort(s->trials, s->n, sizeof(s->trials[0]), compare_trials);
    if (s->n > keep)
        s->n = keep;
}

/* --- what competes ------------------------------------------------------------------
 */

static void
calls(struct search *s, struct raw_setting *best)
{
    s->n = 0;
    s->size = 0;
    s->down = 0;
    for (uint32_t wait = 0; wait < RAW_WAITS; wait++) {
        for (uint32_t more = 0; more < 8; more++) {
            struct raw_setting setting = *best;

            if (!s->peer.shm && (wait == RAW_WAIT_FUTEX || more & 4))
                continue;
            setting.wait = wait;
            setting.slice_us = more & 1 ? 100 : 0;
            setting.rseq = !(more & 2);
            setting.slots = more & 4 ? 32 : setting.slots;
            setting.piece_kib = more & 4 ? 16 : setting.piece_kib;
            add(s, &setting);
            setting.pause = 0;
            if (s->peer.shm && wait == RAW_WAIT_POLL)
                add(s, &setting);
        }
    }
    compete(s, 3, 5);
    compete(s, 7, SHOWN);
    *best = s->trials[0].setting;
}

/* Whether this system's sockets pace what they send. */
static int
system_paces(void)
{
    char name[16] = "";
    socklen_t len = sizeof(name) - 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) < 0)
        bench_die("TCP_CONGESTION");
    close(fd);
    return strncmp(name, "bbr", 3) == 0;
}

static void
socket_grid(struct search *s, const struct raw_setting *base)
{
    static const uint32_t send[] = {0, 64, 96, 128, 256, 512, 1024, 4096};
    static const uint32_t receive[] = {0, 128, 256, 512, 1024, 2048, 4096};

    for (size_t i = 0; i < sizeof(send) / sizeof(send[0]); i++) {
        for (size_t j = 0; j < sizeof(receive) / sizeof(receive[0]); j++) {
            struct raw_setting setting = *base;

            setting.send_kib = send[i];
            setting.receive_kib = receive[j];
            setting.piece_kib = 0;
            add(s, &setting);
            setting.unpaced = 1;
            if (s->paced)
                add(s, &setting);
        }
    }
}

static void
ring_grid(struct search *s, const struct raw_setting *base)
{
    for (uint32_t slot = 16; slot <= 1024; slot *= 2) {
        for (uint32_t slots = 2; slots <= 32; slots *= 2) {
            for (uint32_t late = 0; late < 2; late++) {
                struct raw_setting setting = *base;

                setting.piece_kib = slot;
                setting.slots = slots;
                setting.late = late;
                if (slot * slots <= RAW_RING_BYTES_MAX / KIB)
                    add(s, &setting);
            }
        }
    }
}

/* Each of those that remain, with each value of a further key. */
static void
vary(struct search *s, size_t key, const uint32_t *values, size_t n_values)
{
    size_t n = s->n;

    for (size_t i = 0; i < n; i++) {
        struct raw_setting setting = s->trials[i].setting;
        uint32_t had, *at = (uint32_t *)(void *)((char *)&setting + key);

        had = *at;
        for (size_t j = 0; j < n_values; j++) {
            *at = values[j];
            if (*at != had)
                add(s, &setting);
        }
    }
}

static void
copies(struct search *s, const struct raw_setting *call)
{
    static const uint32_t pieces[] = {0, 32, 64, 128, 256, 1024};
    static const uint32_t cards[] = {64, 128, 256, 512, RAW_CARD_KIB_MAX};
    static const uint32_t slices[] = {0, 100, 3000};
    static const uint32_t waits[] = {RAW_WAIT_BLOCK, RAW_WAIT_FUTEX};
    struct raw_setting base = *call;

    s->n = 0;
    if (base.wait == RAW_WAIT_POLL)
        base.wait = RAW_WAIT_BLOCK;
    if (s->peer.shm)
        ring_grid(s, &base);
    else
        socket_grid(s, &base);
    compete(s, 2, 6);
    if (s->peer.shm)
        vary(s, offsetof(struct raw_setting, wait), waits, 2);
    else
        vary(s, offsetof(struct raw_setting, piece_kib), pieces, 6);
    compete(s, 3, 4);
    if (!s->peer.shm) {
        vary(s, offsetof(struct raw_setting, card_kib), cards, 5);
        compete(s, 3, 3);
    }
    vary(s, offsetof(struct raw_setting, slice_us), slices, 3);
    compete(s, 5, SHOWN);
}

/* --- what is said --------------------------------------------------------------------
 */

static void
say(struct search *s, FILE *out)
{
    const char *kind = s->size == 0 ? "call" : s->down ? "down" : "up";
    char text[RAW_SETTING_TEXT];

    printf("# %s, %zu bytes: %d settings tried, the best:\n", kind, s->size, s->tried);
    for (size_t i = 0; i < s->n && i < SHOWN; i++) {
        raw_setting_print(&s->trials[i].setting, text);
        if (s->size)
            printf("#   %7.3f GB/s  %s\n", (double)s->size / s->trials[i].ns, text);
        else
            printf("#   %7.3f us    %s\n", s->trials[i].ns / 1e3, text);
    }
    fflush(stdout);
    raw_setting_print(&s->trials[0].setting, text);
    fprintf(out, "%s %zu %s\n", kind, s->size, text);
    s->tried = 0;
}

/* A quarter of a GiB takes long, and behaves as the size before: its best compete. */
static void
search_copies(struct search *s, const struct raw_setting *call, FILE *out)
{
    static const size_t sizes[] = {64 * KIB, MIB, 64 * MIB};

    s->host = bench_memory(s->size_max);
    for (s->down = 0; s->down < 2; s->down++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            s->size = sizes[i];
            if (s->size > s->size_max)
                break;
            copies(s, call);
            say(s, out);
        }
        if (s->size_max < SIZE_MAX_HERE)
            continue;
        s->size = SIZE_MAX_HERE;
        compete(s, 3, SHOWN);
        say(s, out);
    }
}

int
main(int argc, char **argv)
{
    static struct search s;
    struct raw_place place = {
        .shm = (int)bench_option(argc, argv, "--shm", 0),
        .core = (int)bench_option(argc, argv, "--peer-core", -1),
        .netns = bench_option_text(argc, argv, "--peer-netns"),
        .host = bench_option_text(argc, argv, "--raw-host"),
    };
    const char *path = bench_option_text(argc, argv, "--out");
    int copies_too = bench_wants(argc, argv, "copies");
    struct raw_setting call = raw_setting_default;
    FILE *out = path ? fopen(path, "we") : NULL;

    if (!out) {
        fprintf(stderr, "usage: raw_search --out=FILE [--shm=1] [--core=N] "
                        "[--peer-core=N] [--max-mib=N] [--only=call] [--turn-ms=N]\n");
        return 2;
    }
    bench_pin((int)bench_option(argc, argv, "--core", -1));
    s.one_core = place.core < 0 && bench_cores() == 1;
    s.turn_ns = (uint64_t)bench_option(argc, argv, "--turn-ms", 0) * 1000000u;
    s.paced = system_paces();
    s.size_max = (size_t)bench_option(argc, argv, "--max-mib", 256) * MIB;
    raw_peer_start(&s.peer, &place, copies_too ? s.size_max : MIB);
    calls(&s, &call);
    say(&s, out);
    if (copies_too)
        search_copies(&s, &call, out);
    raw_peer_stop(&s.peer);
    if (fclose(out) != 0)
        bench_die(path);
    return 0;
}
