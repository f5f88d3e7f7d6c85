/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of transfer paths of the client: every row is reached, and by which copies;
 * and the facts of copies, where no server is needed to know them.
 */
#include "ut_stub.h"

#include "stub_copy_facts.h"
#include "stub_link.h"
#include "stub_memory.h"
#include "stub_path.h"
#include "stub_path_table.h"
#include "stub_post.h"

#include <stdio.h>

#define ALL_FACTS (STUB_COPY_FACTS - 1)

static const char *
chosen(enum stub_direction direction, uint32_t facts)
{
    return stub_path_name(stub_path_first(direction, facts)->path);
}

/* Each row by a copy that is typical for it; the rows in the table's order. */
static const struct {
    enum stub_direction direction;
    uint32_t facts;
    const char *path;
} typical[] = {
    {STUB_H2D, STUB_COPY_CAPTURED | STUB_COPY_SMALL, "capture_node"},
    {STUB_D2H, STUB_COPY_OF_HOST, "host_copy"},
    {STUB_H2H, 0, "host_copy"},
    {STUB_H2D, STUB_COPY_AT_ITS_TURN | STUB_COPY_KNOWN | STUB_COPY_SMALL, "graph"},
    {STUB_H2D, STUB_COPY_KNOWN | STUB_COPY_SHARED_PINNED | STUB_COPY_SAME_ADDRESS,
     "shared_pinned"},
    {STUB_D2H, STUB_COPY_BLOCKING | STUB_COPY_KNOWN | STUB_COPY_SHARED_PINNED,
     "shared_pinned"},
    {STUB_H2D, STUB_COPY_SAME_ADDRESS | STUB_COPY_KNOWN | STUB_COPY_SMALL,
     "device_copy"},
    {STUB_D2H, STUB_COPY_SAME_ADDRESS | STUB_COPY_KNOWN | STUB_COPY_UNAWAITED,
     "device_copy"},
    {STUB_D2D, 0, "device_copy"},
    {STUB_H2D, STUB_COPY_ALIAS | STUB_COPY_KNOWN | STUB_COPY_SMALL, "device_alias"},
    {STUB_D2H, STUB_COPY_ALIAS | STUB_COPY_KNOWN | STUB_COPY_UNAWAITED, "device_alias"},
    {STUB_D2H, STUB_COPY_KNOWN | STUB_COPY_UNAWAITED, "d2h_async"},
    {STUB_H2D, STUB_COPY_KNOWN | STUB_COPY_SMALL, "inline"},
    {STUB_H2D, STUB_COPY_KNOWN, "payload"},
    {STUB_D2H, STUB_COPY_KNOWN, "payload"},
};

static void
every_row_is_reached_by_its_typical_copy(void **state)
{
    assert_int_equal(ARRAY_SIZE(typical), stub_path_rows_n);
    for (size_t i = 0; i < ARRAY_SIZE(typical); i++) {
        const struct stub_path_row *row =
            stub_path_first(typical[i].direction, typical[i].facts);

        assert_ptr_equal(row, &stub_path_rows[i]);
        assert_string_equal(stub_path_name(row->path), typical[i].path);
        assert_true(row->why && *row->why);
    }
}

/* Whatever is known of a copy, there is a path, and every path is one for some copy. */
static void
every_copy_has_a_path_and_every_path_a_copy(void **state)
{
    bool taken[STUB_PATHS] = {false};

    for (int direction = 0; direction < STUB_DIRECTIONS; direction++) {
        for (uint32_t facts = 0; facts <= ALL_FACTS; facts++) {
            const struct stub_path_row *row = stub_path_first(direction, facts);

            assert_non_null(row);
            taken[row->path] = true;
        }
    }
    for (size_t i = 0; i < STUB_PATHS; i++)
        assert_true(taken[i]);
}

/* What can be known of copies of each shape (stub_copy_facts.c, stub_copy_rect.c,
 * stub_copy_array.c). */
static const struct {
    uint32_t facts;
    uint32_t directions;
    const char *paths; /* those that such copies take, in the order of enum stub_path */
} shapes[STUB_SHAPES] = {
    [STUB_LINEAR] =
        {ALL_FACTS, 1u << STUB_H2D | 1u << STUB_D2H | 1u << STUB_H2H,
         " capture_node graph host_copy device_copy device_alias shared_pinned"
         " d2h_async inline payload"},
    [STUB_BOX] = {STUB_COPY_BLOCKING | STUB_COPY_CAPTURED | STUB_COPY_KNOWN |
                      STUB_COPY_UNAWAITED | STUB_COPY_AT_ITS_TURN,
                  1u << STUB_H2D | 1u << STUB_D2H | 1u << STUB_D2D | 1u << STUB_H2H,
                  " capture_node graph host_copy device_copy d2h_async payload"},
    [STUB_ARRAY] = {STUB_COPY_BLOCKING | STUB_COPY_SMALL,
                    1u << STUB_H2D | 1u << STUB_D2H, " inline payload"},
};

static void
every_path_of_a_shape_has_its_function(void **state)
{
    for (int shape = 0; shape < STUB_SHAPES; shape++) {
        bool taken[STUB_PATHS] = {false};
        char names[256] = "";

        for (int direction = 0; direction < STUB_DIRECTIONS; direction++)
            for (uint32_t facts = 0; facts <= ALL_FACTS; facts++)
                if (shapes[shape].directions & 1u << direction &&
                    !(facts & ~shapes[shape].facts))
                    taken[stub_path_first(direction, facts)->path] = true;
        for (int path = 0; path < STUB_PATHS; path++) {
            assert_int_equal(stub_path_fns[shape][path] != NULL, taken[path]);
            if (taken[path])
                snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s",
                         stub_path_name(path));
        }
        assert_string_equal(names, shapes[shape].paths);
    }
}

/* What the device did to its copy of such memory is on its way to the host until then,
 * and would arrive behind bytes that were sent apart from it. */
static void
copies_of_memory_at_one_address_are_the_devices_until_the_stream_is_idle(void **state)
{
    uint32_t facts = STUB_COPY_BLOCKING | STUB_COPY_KNOWN | STUB_COPY_SAME_ADDRESS;

    for (int direction = STUB_H2D; direction <= STUB_D2H; direction++) {
        assert_string_equal(chosen(direction, facts), "device_copy");
        assert_string_equal(chosen(direction, facts | STUB_COPY_IDLE), "payload");
    }
}

static void
blocking_copies_never_go_unawaited(void **state)
{
    for (uint32_t facts = 0; facts <= ALL_FACTS; facts++)
        assert_string_not_equal(chosen(STUB_D2H, facts | STUB_COPY_BLOCKING),
                                "d2h_async");
}

/* The worker may refuse shared memory for now: the bytes are sent then. */
static void
refused_path_is_followed_by_one_that_sends(void **state)
{
    uint32_t facts = STUB_COPY_BLOCKING | STUB_COPY_KNOWN | STUB_COPY_SHARED_PINNED;

    for (int direction = STUB_H2D; direction <= STUB_D2H; direction++) {
        const struct stub_path_row *first = stub_path_first(direction, facts);
        const struct stub_path_row *second = stub_path_next(direction, facts, first);

        assert_string_equal(stub_path_name(first->path), "shared_pinned");
        assert_string_equal(stub_path_name(second->path), "payload");
    }
}

/* ---- facts ------------------------------------------------------------------ */

#define DEVICE UINT64_C(0x7e0000000000)
#define DEVICE_SIZE (UINT64_C(1) << 20)

static uint8_t pageable[128 * 1024];

static void
attach_with_device_memory(void)
{
    static bool attached;

    if (attached)
        return;
    attached = true;
    ut_stub_attach(NULL);
    assert_int_equal(stub_memory_add(STUB_MEMORY_DEVICE, DEVICE, DEVICE_SIZE, 0, 0), 0);
}

static const char *
path_of(enum stub_direction direction, bool blocking, uint64_t device, uint64_t n)
{
    struct stub_copy copy = {
        .direction = direction,
        .blocking = blocking,
        .dst = direction == STUB_H2D ? device : (uintptr_t)pageable,
        .src = direction == STUB_H2D ? (uintptr_t)pageable : device,
        .n = n};

    assert_int_equal(stub_copy_find_facts(&copy), CUDA_SUCCESS);
    return chosen(direction, copy.facts);
}

static void
pageable_memory_goes_inline_up_to_the_limit_and_as_payload_above(void **state)
{
    attach_with_device_memory();
    assert_string_equal(path_of(STUB_H2D, true, DEVICE, STUB_COPY_INLINE), "inline");
    assert_string_equal(path_of(STUB_H2D, false, DEVICE, STUB_COPY_INLINE + 1),
                        "payload");
    assert_string_equal(path_of(STUB_D2H, true, DEVICE, 4), "payload");
    assert_string_equal(path_of(STUB_D2H, false, DEVICE, 4), "payload");
}

/* Unless there is no room for it beside what is queued. */
static void
pageable_memory_goes_inline_up_to_another_limit_to_a_peer_nearby(void **state)
{
    struct xport_conn conn = {.near = true};
    struct stub_link *link = &stub_links[0];

    attach_with_device_memory();
    link->conn = &conn;
    assert_string_equal(path_of(STUB_H2D, true, DEVICE, STUB_COPY_INLINE_NEAR),
                        "inline");
    assert_string_equal(path_of(STUB_H2D, true, DEVICE, STUB_COPY_INLINE_NEAR + 1),
                        "payload");
    atomic_store(&link->queued, STUB_SEND_HIGH / 4 + 8);
    assert_string_equal(path_of(STUB_H2D, true, DEVICE, STUB_COPY_INLINE_NEAR),
                        "payload");
    assert_string_equal(path_of(STUB_H2D, true, DEVICE, STUB_COPY_INLINE), "inline");
    atomic_store(&link->queued, 0);
    conn.near = false;
    assert_string_equal(path_of(STUB_H2D, true, DEVICE, STUB_COPY_INLINE + 1),
                        "payload");
    link->conn = NULL;
}

/* The driver judges it, so the caller waits; that needs the fact. */
static void
copy_past_the_end_of_its_allocation_is_not_known(void **state)
{
    struct stub_copy copy = {.direction = STUB_H2D,
                             .blocking = true,
                             .dst = DEVICE + DEVICE_SIZE - 8,
                             .src = (uintptr_t)pageable,
                             .n = 8};

    attach_with_device_memory();
    assert_int_equal(stub_copy_find_facts(&copy), CUDA_SUCCESS);
    assert_true(copy.facts & STUB_COPY_KNOWN);
    copy.n = 9;
    assert_int_equal(stub_copy_find_facts(&copy), CUDA_SUCCESS);
    assert_false(copy.facts & STUB_COPY_KNOWN);
}

/* A program may pass page-locked memory of its own where a device address is wanted. */
static void
page_locked_memory_as_device_address_is_copied_on_the_host(void **state)
{
    static uint8_t locked[4096];

    attach_with_device_memory();
    assert_int_equal(stub_memory_add(STUB_MEMORY_REGISTERED, (uintptr_t)locked,
                                     sizeof(locked), 0, 0),
                     0);
    assert_string_equal(path_of(STUB_H2D, true, (uintptr_t)locked, sizeof(locked)),
                        "host_copy");
    assert_string_equal(path_of(STUB_D2H, false, (uintptr_t)locked, 1), "host_copy");
    assert_string_equal(path_of(STUB_H2D, true, (uintptr_t)locked, sizeof(locked) + 1),
                        "inline");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_reached_by_its_typical_copy),
        cmocka_unit_test(every_copy_has_a_path_and_every_path_a_copy),
        cmocka_unit_test(every_path_of_a_shape_has_its_function),
        cmocka_unit_test(
            copies_of_memory_at_one_address_are_the_devices_until_the_stream_is_idle),
        cmocka_unit_test(blocking_copies_never_go_unawaited),
        cmocka_unit_test(refused_path_is_followed_by_one_that_sends),
        cmocka_unit_test(
            pageable_memory_goes_inline_up_to_the_limit_and_as_payload_above),
        cmocka_unit_test(
            pageable_memory_goes_inline_up_to_another_limit_to_a_peer_nearby),
        cmocka_unit_test(copy_past_the_end_of_its_allocation_is_not_known),
        cmocka_unit_test(page_locked_memory_as_device_address_is_copied_on_the_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
