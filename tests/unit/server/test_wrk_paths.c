/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of transfer paths: which facts about a copy lead to which path.  The paths'
 * own functions are not called here; end-to-end tests run them.
 */
#include "ut.h"

#include "wrk_paths.h"

#include <string.h>

/* What the table points to. */
void
wrk_path_inline_h2d(struct wrk_h2d *t)
{
    (void)t;
}

void
wrk_path_staging_h2d(struct wrk_h2d *t)
{
    (void)t;
}

void
wrk_path_ring_h2d(struct wrk_h2d *t)
{
    (void)t;
}

void
wrk_path_registered_window_h2d(struct wrk_h2d *t)
{
    (void)t;
}

CUresult
wrk_path_ring_d2h_whole(struct wrk_d2h *d, const void *header, size_t size)
{
    (void)d;
    (void)header;
    (void)size;
    return CUDA_SUCCESS;
}

CUresult
wrk_path_staging_d2h_begin(struct wrk_d2h *d)
{
    (void)d;
    return CUDA_SUCCESS;
}

CUresult
wrk_path_registered_window_d2h_begin(struct wrk_d2h *d)
{
    (void)d;
    return CUDA_SUCCESS;
}

void
wrk_path_staging_d2h_send(struct wrk_d2h *d)
{
    (void)d;
}

void
wrk_path_ring_d2h_send(struct wrk_d2h *d)
{
    (void)d;
}

void
wrk_path_registered_window_d2h_send(struct wrk_d2h *d)
{
    (void)d;
}

#define H2D WRK_FACT_H2D
#define D2H WRK_FACT_D2H
#define LINEAR (WRK_FACT_RANGE | WRK_FACT_ANY_CUT)
#define SHM WRK_FACT_RING
#define RDMA WRK_FACT_WINDOW

/* Copies as the worker meets them, and the path of each. */
static const struct {
    uint32_t facts;
    const char *name;
} copies[] = {
    /* Over TCP neither ring nor window exists. */
    {H2D | WRK_FACT_IN_FRAME, "inline"},
    {H2D | LINEAR, "staging"},
    {H2D | LINEAR | WRK_FACT_LONG | WRK_FACT_IDLE, "staging"},
    {D2H | LINEAR | WRK_FACT_IDLE, "staging"},
    {D2H | LINEAR | WRK_FACT_LONG | WRK_FACT_IDLE, "staging"},
    {D2H | WRK_FACT_ASYNC, "d2h_async"},
    /* Shared memory. */
    {H2D | SHM | WRK_FACT_IN_FRAME, "inline"},
    {H2D | SHM | LINEAR | WRK_FACT_LONG | WRK_FACT_IDLE, "ring"},
    {H2D | SHM | WRK_FACT_ANY_CUT | WRK_FACT_LONG | WRK_FACT_IDLE, "ring"},
    {H2D | SHM | LINEAR | WRK_FACT_LONG, "staging"},        /* other work is ahead */
    {H2D | SHM | LINEAR | WRK_FACT_IDLE, "staging"},        /* short */
    {H2D | SHM | WRK_FACT_LONG | WRK_FACT_IDLE, "staging"}, /* rows */
    {D2H | SHM | LINEAR | WRK_FACT_LONG | WRK_FACT_IDLE, "ring"},
    {D2H | SHM | LINEAR | WRK_FACT_IDLE, "staging"},
    {D2H | SHM | WRK_FACT_LONG | WRK_FACT_IDLE, "staging"},
    {D2H | SHM | LINEAR | WRK_FACT_LONG | WRK_FACT_ASYNC, "d2h_async"},
    {H2D | SHM | WRK_FACT_BOTH_MAP, "shared_pinned"},
    {D2H | SHM | WRK_FACT_BOTH_MAP, "shared_pinned"},
    /* RDMA. */
    {H2D | RDMA | LINEAR | WRK_FACT_LONG | WRK_FACT_IDLE, "registered_window"},
    {H2D | RDMA | LINEAR | WRK_FACT_LONG, "staging"}, /* other work is ahead */
    {H2D | RDMA | WRK_FACT_ANY_CUT | WRK_FACT_IDLE, "staging"}, /* an array */
    {H2D | RDMA | WRK_FACT_IN_FRAME, "inline"},
    {D2H | RDMA | LINEAR | WRK_FACT_IDLE, "registered_window"},
    {D2H | LINEAR | WRK_FACT_LONG | WRK_FACT_IDLE, "staging"}, /* no window there */
    {D2H | RDMA | LINEAR | WRK_FACT_ASYNC, "d2h_async"},
};

static void
each_copy_takes_the_path_of_its_facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
        const struct wrk_path *path = wrk_path_choose(copies[i].facts);

        assert_non_null(path);
        if (strcmp(path->name, copies[i].name) != 0)
            fail_msg("copy %zu (facts %#x): %s, not %s", i, copies[i].facts, path->name,
                     copies[i].name);
    }
}

static void
every_row_of_the_table_is_reached(void **state)
{
    bool reached[32] = {false};

    (void)state;
    assert_true(wrk_n_paths <= ARRAY_SIZE(reached));
    for (size_t i = 0; i < ARRAY_SIZE(copies); i++)
        reached[wrk_path_choose(copies[i].facts) - wrk_paths] = true;
    for (size_t i = 0; i < wrk_n_paths; i++)
        if (!reached[i])
            fail_msg("no copy here takes row %zu, %s", i, wrk_paths[i].name);
}

/* Whatever is known, a copy has a path, in its own direction, that says why and that
 * somebody moves the bytes of. */
static void
every_set_of_facts_has_a_path_in_its_direction(void **state)
{
    (void)state;
    for (uint32_t more = 0; more < 0x200; more++) {
        for (uint32_t dir = WRK_FACT_H2D; dir <= WRK_FACT_D2H; dir <<= 1) {
            const struct wrk_path *path = wrk_path_choose(dir | more << 2);
            bool elsewhere;

            assert_non_null(path);
            assert_true(path->needs & dir);
            assert_false(path->needs & (dir ^ (WRK_FACT_H2D | WRK_FACT_D2H)));
            assert_non_null(path->why);
            elsewhere = !strcmp(path->name, "shared_pinned") ||
                        !strcmp(path->name, "d2h_async");
            assert_true(elsewhere ||
                        (dir == WRK_FACT_H2D ? path->h2d != NULL
                                             : path->d2h_begin && path->d2h_send));
        }
    }
}

/* The state of a stream and the registration of a ring cost calls of the driver. */
static void
the_driver_is_asked_only_where_it_matters(void **state)
{
    (void)state;
    assert_false(wrk_path_asks_idle(H2D | WRK_FACT_IN_FRAME | SHM));
    assert_false(wrk_path_asks_idle(H2D | LINEAR | WRK_FACT_LONG));
    assert_false(wrk_path_asks_idle(H2D | LINEAR | SHM));
    assert_true(wrk_path_asks_idle(H2D | LINEAR | WRK_FACT_LONG | SHM));
    assert_true(wrk_path_asks_idle(H2D | LINEAR | RDMA));
    assert_true(wrk_path_asks_ring(H2D | LINEAR | WRK_FACT_LONG));
    assert_false(wrk_path_asks_ring(H2D | LINEAR));
    assert_false(wrk_path_asks_ring(H2D | WRK_FACT_LONG));
    assert_false(wrk_path_asks_ring(D2H | LINEAR | WRK_FACT_LONG | RDMA));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_copy_takes_the_path_of_its_facts),
        cmocka_unit_test(every_row_of_the_table_is_reached),
        cmocka_unit_test(every_set_of_facts_has_a_path_in_its_direction),
        cmocka_unit_test(the_driver_is_asked_only_where_it_matters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
