/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: slices of both sides in turns, and what is said of them; see rows.h. */
#include "rows.h"

#include <string.h>

#define WARM 200 /* calls at most, before a row */

struct side {
    void (*act)(void *data);
    void *data;
    struct bench_times all, slice;
    uint64_t cpu_ns, calls, took_ns;
};

struct mover {
    struct raw_link *link;
    const struct bench_move *move;
};

void
bench_raw_open(struct bench_raw *raw, int argc, char **argv, size_t bulk_max)
{
    struct raw_place place = {
        .shm = (int)bench_option(argc, argv, "--shm", 0),
        .core = (int)bench_option(argc, argv, "--peer-core", -1),
        .netns = bench_option_text(argc, argv, "--peer-netns"),
        .host = bench_option_text(argc, argv, "--raw-host"),
    };
    struct raw_setting setting;

    *raw = (struct bench_raw){
        .settings = bench_option_text(argc, argv, "--settings"),
        .beside = (int)bench_option(argc, argv, "--beside", 1),
    };
    if (!raw->beside)
        return;
    raw_peer_start(&raw->peer, &place, bulk_max);
    setting = raw_setting_of(raw->settings, "call", 0);
    raw_link_open(&raw->call, &raw->peer, &setting);
    raw_link_rest(&raw->call);
}

void
bench_raw_close(struct bench_raw *raw)
{
    if (!raw->beside)
        return;
    raw_link_close(&raw->call);
    raw_peer_stop(&raw->peer);
}

static void
move(void *data)
{
    const struct mover *m = data;

    if (m->move->shared)
        raw_link_move_shared(m->link, m->move->up, m->move->down);
    else
        raw_link_move(m->link, m->move->host, m->move->up, m->move->host,
                      m->move->down);
}

static uint64_t
cpu_of(const struct bench_raw *raw, const struct side *side)
{
    return bench_cpu_ns() +
           (side->act == move ? raw_peer_cpu_ns(&raw->peer) : bench_workers_cpu_ns());
}

/* Slices of a fixed time have too many calls to keep the times of all: one in so many.
 */
enum { KEEP = 61 };

static void
run_calls(struct side *side, long calls)
{
    side->slice.count = 0;
    for (long i = 0; i < calls; i++) {
        uint64_t start = bench_now_ns(), took;

        side->act(side->data);
        took = bench_now_ns() - start;
        side->took_ns += took;
        bench_times_add(&side->slice, took);
        bench_times_add(&side->all, took);
    }
    side->calls += (uint64_t)calls;
}

static double
run_for(struct side *side, uint64_t ns)
{
    uint64_t begin = bench_now_ns(), now = begin, calls = 0;

    while (now - begin < ns) {
        uint64_t start = now;

        side->act(side->data);
        now = bench_now_ns();
        if (calls++ % KEEP == 0)
            bench_times_add(&side->all, now - start);
    }
    side->calls += calls;
    side->took_ns += now - begin;
    return (double)(now - begin) / (double)calls;
}

static double
run_slice(struct bench_raw *raw, struct side *side, const struct bench_row *row)
{
    uint64_t cpu = cpu_of(raw, side);
    double mean = 0;

    if (row->slice_ns)
        mean = run_for(side, row->slice_ns);
    else
        run_calls(side, row->calls);
    side->cpu_ns += cpu_of(raw, side) - cpu;
    if (side->act == move) /* one that polls would take the worker's core */
        raw_link_rest(((struct mover *)side->data)->link);
    return row->slice_ns ? mean : bench_times_percentile(&side->slice, 50);
}

static void
say(const struct bench_row *row, const char *middle, const char *unit, double value)
{
    char key[96];

    snprintf(key, sizeof(key), "%s%s%s", row->name, middle, unit);
    bench_say(key, value);
}

static void
say_side(const struct bench_row *row, const char *middle, struct side *side,
         double times)
{
    double median = bench_times_percentile(&side->all, 50);

    if (row->bytes)
        say(row, middle, "_gbps", (double)row->bytes / median);
    say(row, middle, "_us", median / 1e3 / times);
    say(row, middle, "_mean_us",
        (double)side->took_ns / (double)side->calls / 1e3 / times);
    say(row, middle, "_p99_us", bench_times_percentile(&side->all, 99) / 1e3 / times);
    if (side->act == move || getenv("BENCH_SERVER"))
        say(row, middle, "_cpu_us",
            (double)side->cpu_ns / 1e3 / (double)side->calls / times);
    bench_times_free(&side->all);
    bench_times_free(&side->slice);
}

/* The link of a row: that of the calls, or one set for copies of its size. */
static struct raw_link *
link_of(struct bench_raw *raw, const struct bench_row *row, struct raw_link *own)
{
    size_t size = row->raw.up > row->raw.down ? row->raw.up : row->raw.down;
    struct raw_setting setting;

    if (size == 0 || row->raw.shared)
        return &raw->call;
    setting = raw_setting_of(raw->settings, row->raw.up == size ? "up" : "down", size);
    raw_link_open(own, &raw->peer, &setting);
    return own;
}

static void
run_both(struct bench_raw *raw, const struct bench_row *row, struct side *ours)
{
    struct raw_link own;
    struct raw_link *link = link_of(raw, row, &own);
    struct mover mover = {link, &row->raw};
    struct side theirs = {.act = move, .data = &mover};
    long warm = row->calls < WARM ? row->calls : WARM;
    double times = row->times > 0 ? row->times : 1;

    for (long i = 0; i < warm; i++)
        move(&mover);
    raw_link_rest(link);
    printf("SAMPLES %s_ratio", row->name);
    for (int slice = 0; slice < row->slices; slice++) {
        double a, b;

        if (slice % 2) {
            b = run_slice(raw, &theirs, row);
            a = run_slice(raw, ours, row);
        } else {
            a = run_slice(raw, ours, row);
            b = run_slice(raw, &theirs, row);
        }
        printf(" %.5g", row->bytes ? b / a : a / b);
    }
    printf("\n");
    say_side(row, "", ours, times);
    say_side(row, "_raw", &theirs, 1);
    if (link == &own)
        raw_link_close(&own);
}

void
bench_row_run(struct bench_raw *raw, const struct bench_row *row)
{
    struct side ours = {.act = row->act, .data = row->data};
    long warm = row->calls < WARM ? row->calls : WARM;

    for (long i = 0; i < warm; i++)
        row->act(row->data);
    if (raw->beside) {
        run_both(raw, row, &ours);
        return;
    }
    for (int slice = 0; slice < row->slices; slice++)
        run_slice(raw, &ours, row);
    say_side(row, "", &ours, row->times > 0 ? row->times : 1);
}
