/* SPDX-License-Identifier: Apache-2.0 */
/* One ring of shared memory, both sides of it in one thread. */
#include "ut.h"

#include "xport_ring.h"

#include <stdlib.h>
#include <string.h>

static void
ring_index_out_of_bounds_is_an_error(void **state)
{
    struct xport_ring_shared shared = {0};
    CLEANUP_FREE uint8_t *bytes = calloc(1, XPORT_RING_SIZE);
    atomic_bool closed = false;
    struct xport_ring ring = {&shared, bytes, 0, &closed, -1};
    uint8_t buf[16];

    shared.head = XPORT_RING_SIZE + 1;
    assert_int_equal(xport_ring_get(&ring, buf, sizeof(buf)), -EPROTO);
    shared.head = UINT64_MAX;
    assert_int_equal(xport_ring_get(&ring, buf, sizeof(buf)), -EPROTO);
    shared.tail = 1;
    assert_int_equal(xport_ring_put(&ring, buf, sizeof(buf)), -EPROTO);
}

/* All pieces go into the ring, as far as there is room, and become visible at once. */
static void
pieces_are_published_together(void **state)
{
    struct xport_ring_shared shared = {0};
    CLEANUP_FREE uint8_t *bytes = calloc(1, XPORT_RING_SIZE);
    CLEANUP_FREE uint8_t *big = malloc(XPORT_RING_SIZE), *got = malloc(XPORT_RING_SIZE);
    atomic_bool closed = false;
    struct xport_ring tx = {&shared, bytes, 0, &closed, -1}, rx = tx;
    struct iovec iov[] = {{(void *)(uintptr_t) "frame...", 8}, {NULL, 0}, {big, 0}};

    for (size_t i = 0; i < XPORT_RING_SIZE; i++)
        big[i] = (uint8_t)(i * 7 + (i >> 9));
    for (size_t n = 1; n < XPORT_RING_SIZE - 8; n += 9973) {
        iov[2].iov_len = n;
        assert_int_equal(xport_ring_put_all(&tx, iov, 3), n + 8);
        assert_int_equal(xport_ring_get(&rx, got, XPORT_RING_SIZE), n + 8);
        assert_memory_equal(got, "frame...", 8);
        assert_memory_equal(got + 8, big, n);
    }
    iov[2].iov_len = XPORT_RING_SIZE;
    assert_int_equal(xport_ring_put_all(&tx, iov, 3), XPORT_RING_SIZE);
    assert_int_equal(xport_ring_put_all(&tx, iov, 3), 0);
    assert_int_equal(xport_ring_get(&rx, got, 16), 16);
    assert_int_equal(xport_ring_put_all(&tx, iov, 3), 16);
    shared.tail = tx.index + 1;
    assert_int_equal(xport_ring_put_all(&tx, iov, 3), -EPROTO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_index_out_of_bounds_is_an_error),
        cmocka_unit_test(pieces_are_published_together),
    };

    return cmocka_run_group_tests_name("xport_ring", tests, NULL, NULL);
}
