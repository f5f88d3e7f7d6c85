/* SPDX-License-Identifier: Apache-2.0 */
/* When a frame says how much has been received, and that nobody wakes to send it. */
#include "ut_stub.h"

#include "stub_received.h"
#include "wire_api.h"

static uint64_t received, due;
static struct xport_ops ops;

static uint64_t
unheard(const struct xport_conn *conn, uint64_t *ret_received)
{
    (void)conn;
    *ret_received = received;
    return due;
}

static int
connect_once(void **state)
{
    struct stub_link *link = &stub_links[0];

    ut_stub_attach(NULL);
    *state = ut_stub_connect();
    ops = *link->conn->ops;
    ops.unheard = unheard;
    link->conn->ops = &ops;
    return 0;
}

static int
disconnect(void **state)
{
    xport_free(stub_links[0].conn);
    xport_free(*state);
    return 0;
}

static void
test_says_nothing_of_little(void **state)
{
    struct stub_link *link = &stub_links[0];

    (void)state;
    link->hears = true;
    received = 1u << 30;
    due = 4096;
    assert_int_equal(stub_received_say(link), 0);
    assert_int_equal(xport_pending(link->conn), 0);
}

static void
test_says_nothing_to_an_older_worker(void **state)
{
    struct stub_link *link = &stub_links[0];

    (void)state;
    link->hears = false;
    due = received = 1u << 20;
    assert_int_equal(stub_received_say(link), 0);
    assert_int_equal(xport_pending(link->conn), 0);
}

/* It waits for the frame that follows, and the flusher does not hear of it. */
static void
test_says_how_much_has_come(void **state)
{
    struct stub_link *link = &stub_links[0];
    struct wire_gp_received_req body;
    struct wire_req head;

    (void)state;
    link->hears = true;
    received = UINT64_C(5) << 32;
    due = 64u << 10;
    assert_int_equal(stub_received_say(link), received);
    assert_int_equal(xport_pending(link->conn), sizeof(head) + sizeof(body));
    memcpy(&head, link->conn->tx.base, sizeof(head));
    memcpy(&body, link->conn->tx.base + sizeof(head), sizeof(body));
    assert_int_equal(head.call, WIRE_CALL_gp_received);
    assert_int_equal(head.flags, 0);
    assert_int_equal(body.bytes, received);
    assert_int_equal(atomic_load(&link->queued), 0);
    assert_int_equal(atomic_load(&link->flush_armed), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_nothing_of_little),
        cmocka_unit_test(test_says_nothing_to_an_older_worker),
        cmocka_unit_test(test_says_how_much_has_come),
    };

    return cmocka_run_group_tests(tests, connect_once, disconnect);
}
