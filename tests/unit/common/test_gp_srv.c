/* SPDX-License-Identifier: Apache-2.0 */
/* SRV records as DNS brings them: their order, and every way to be wrong. */
#include "ut.h"

#include "gp_srv.h"

#include <errno.h>
#include <string.h>

/* The answer to _s._tcp.a.b: two records, the second with a pointer to "a.b". */
static const uint8_t GOOD[] =
    "\x12\x34\x81\x80\0\1\0\3\0\0\0\0"
    "\2_s\4_tcp\1a\1b\0\0\x21\0\1"
    "\xc0\x0c\0\x21\0\1\0\0\0\x3c\0\x0e\0\x0a\0\x05\x1d\x38\2h1\1x\1y\0"
    "\xc0\x0c\0\x05\0\1\0\0\0\x3c\0\2\xc0\x0c" /* a CNAME, which is passed over */
    "\xc0\x0c\0\x21\0\1\0\0\0\x3c\0\x0b\0\1\0\0\x1d\x39\2h2\xc0\x14";
#define GOOD_SIZE (sizeof(GOOD) - 1)

static int
parse(const uint8_t *bytes, size_t size, struct gp_srv_target *targets)
{
    uint8_t *copy = test_malloc(size ? size : 1); /* whose end is watched */
    int n;

    memcpy(copy, bytes, size);
    n = gp_srv_parse(copy, size, targets);
    test_free(copy);
    return n;
}

static void
records_are_read_with_pointers(void **state)
{
    struct gp_srv_target t[GP_SRV_TARGETS_MAX];

    (void)state;
    assert_int_equal(parse(GOOD, GOOD_SIZE, t), 2);
    assert_string_equal(t[0].host, "h1.x.y");
    assert_int_equal(t[0].port, 7480);
    assert_int_equal(t[0].priority, 10);
    assert_int_equal(t[0].weight, 5);
    assert_string_equal(t[1].host, "h2.a.b");
    assert_int_equal(t[1].port, 7481);
}

static void
a_message_that_breaks_off_is_refused(void **state)
{
    struct gp_srv_target t[GP_SRV_TARGETS_MAX];

    (void)state;
    for (size_t size = 0; size < GOOD_SIZE; size++)
        assert_int_equal(parse(GOOD, size, t), -EBADMSG);
}

static void
pointers_in_a_circle_end(void **state)
{
    uint8_t bytes[GOOD_SIZE];
    struct gp_srv_target t[GP_SRV_TARGETS_MAX];

    (void)state;
    memcpy(bytes, GOOD, GOOD_SIZE);
    bytes[GOOD_SIZE - 1] = (uint8_t)(GOOD_SIZE - 2); /* to itself */
    assert_int_equal(parse(bytes, GOOD_SIZE, t), 1);
    bytes[12] = 0xc0; /* and the question's name */
    bytes[13] = 0x0c;
    assert_int_equal(parse(bytes, GOOD_SIZE, t), -EBADMSG);
}

static void
names_that_are_no_hosts_are_left_out(void **state)
{
    uint8_t bytes[GOOD_SIZE];
    struct gp_srv_target t[GP_SRV_TARGETS_MAX];
    const uint8_t *h1 = memmem(GOOD, GOOD_SIZE, "h1", 2);

    (void)state;
    for (const char *bad = " /%\n:["; *bad; bad++) {
        memcpy(bytes, GOOD, GOOD_SIZE);
        bytes[h1 - GOOD] = (uint8_t)*bad;
        assert_int_equal(parse(bytes, GOOD_SIZE, t), 1);
        assert_string_equal(t[0].host, "h2.a.b");
    }
    memcpy(bytes, GOOD, GOOD_SIZE); /* the root: the service is not there */
    bytes[h1 - GOOD - 1] = 0;
    assert_int_equal(parse(bytes, GOOD_SIZE, t), 1);
}

static void
no_bytes_do_harm(void **state)
{
    struct gp_srv_target t[GP_SRV_TARGETS_MAX];

    (void)state;
    for (size_t at = 0; at < GOOD_SIZE; at++)
        for (unsigned value = 0; value < 256; value++) {
            uint8_t bytes[GOOD_SIZE];
            int n;

            memcpy(bytes, GOOD, GOOD_SIZE);
            bytes[at] = (uint8_t)value;
            n = parse(bytes, GOOD_SIZE, t);
            assert_true(n == -EBADMSG || (n >= 0 && n <= 3));
        }
}

static uint32_t given;

static uint32_t
give(void)
{
    return given;
}

static void
targets_go_by_priority_and_then_by_weight(void **state)
{
    unsigned first[3] = {0};

    (void)state;
    for (given = 0; given < 1000; given++) {
        struct gp_srv_target t[] = {{"last", 1, 20, 0},
                                    {"often", 1, 10, 90},
                                    {"rarely", 1, 10, 9},
                                    {"hardly", 1, 10, 0}};

        gp_srv_order(t, ARRAY_SIZE(t), give);
        assert_string_equal(t[3].host, "last");
        first[0] += !strcmp(t[0].host, "often");
        first[1] += !strcmp(t[0].host, "rarely");
        first[2] += !strcmp(t[0].host, "hardly");
    }
    assert_int_equal(first[0], 900);
    assert_int_equal(first[1], 90);
    assert_int_equal(first[2], 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_read_with_pointers),
        cmocka_unit_test(a_message_that_breaks_off_is_refused),
        cmocka_unit_test(pointers_in_a_circle_end),
        cmocka_unit_test(names_that_are_no_hosts_are_left_out),
        cmocka_unit_test(no_bytes_do_harm),
        cmocka_unit_test(targets_go_by_priority_and_then_by_weight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
