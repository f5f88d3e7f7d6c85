/* SPDX-License-Identifier: Apache-2.0 */
/* Error words, strings, base64url, hashing, addresses, files. */
#include "ut.h"

#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_hash.h"
#include "gp_net.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void
error_words_get_context_in_front(void **state)
{
    struct gp_err err = {0};

    assert_int_equal(gp_err_set(&err, -ENOENT, "no %s", "card"), -ENOENT);
    assert_int_equal(gp_err_wrap(&err, -ENOENT, "session %d", 7), -ENOENT);
    assert_string_equal(err.msg, "session 7: no card");
    err = (struct gp_err){0};
    gp_err_wrap(&err, -EPERM, "ticket");
    assert_string_equal(err.msg, "ticket: Operation not permitted");
    assert_int_equal(gp_err_set(NULL, -EIO, "unheard"), -EIO);
}

static void
error_words_too_long_are_cut_not_overrun(void **state)
{
    struct gp_err err = {0};
    char text[2000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    gp_err_set(&err, -EIO, "%s", text);
    gp_err_wrap(&err, -EIO, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
}

static void
white_space_is_trimmed_at_both_ends(void **state)
{
    char text[] = " \ta word \n", blank[] = "  ", empty[] = "";

    assert_string_equal(gp_str_trim(text), "a word");
    assert_string_equal(gp_str_trim(blank), "");
    assert_string_equal(gp_str_trim(empty), "");
}

static void
number_must_fill_the_string(void **state)
{
    uint64_t v = 9;

    assert_int_equal(gp_str_u64("18446744073709551615", 0, UINT64_MAX, &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(gp_str_u64("18446744073709551616", 0, UINT64_MAX, &v), -ERANGE);
    assert_int_equal(gp_str_u64("", 0, 9, &v), -EINVAL);
    assert_int_equal(gp_str_u64("1x", 0, 9, &v), -EINVAL);
    assert_int_equal(gp_str_u64("-1", 0, 9, &v), -EINVAL);
    assert_int_equal(gp_str_u64("10", 0, 9, &v), -ERANGE);
}

static void
base64url_returns_what_went_in(void **state)
{
    uint8_t data[67];

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 37 + 250);
    for (size_t len = 0; len <= sizeof(data); len++) {
        CLEANUP_FREE char *text = gp_b64_encode(data, len);
        CLEANUP_FREE uint8_t *back = NULL;
        size_t back_len;

        assert_int_equal(gp_b64_decode(text, strlen(text), &back, &back_len), 0);
        assert_int_equal(back_len, len);
        assert_memory_equal(back, data, len);
    }
}

static void
base64url_refuses_second_spellings(void **state)
{
    const char *const bad[] = {"A", "AB==", "A+", "A/", "AB", "AAB", "AA A"};
    uint8_t *ret;
    size_t len;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(gp_b64_decode(bad[i], strlen(bad[i]), &ret, &len), -EINVAL);
}

/* The vector of the SipHash paper, appendix A: key 00..0f, message 00..0e. */
static void
siphash_gives_the_published_value(void **state)
{
    struct gp_hash_key key = {
        {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    uint8_t msg[15];

    for (uint8_t i = 0; i < sizeof(msg); i++)
        msg[i] = i;
    assert_true(gp_hash_bytes(&key, msg, sizeof(msg)) == UINT64_C(0xa129ca6149be45e5));
}

static void
addresses_are_taken_apart(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } good[] = {
        {"host:7", "host", "7"},       {"[::1]:80", "::1", "80"},   {":90", "", "90"},
        {"10.0.0.1", "10.0.0.1", "5"}, {"fe80::1", "fe80::1", "5"},
    };
    struct gp_net_addr addr;
    struct gp_err err = {0};

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(gp_net_parse(good[i].text, 5, &addr, NULL), 0);
        assert_string_equal(addr.host, good[i].host);
        assert_string_equal(addr.port, good[i].port);
    }
    assert_int_equal(gp_net_parse("host:70000", 5, &addr, &err), -EINVAL);
    assert_string_equal(err.msg, "'host:70000': the port must be 0..65535");
    assert_int_equal(gp_net_parse("[::1", 5, &addr, &err), -EINVAL);
    assert_int_equal(gp_net_parse("host", 0, &addr, &err), -EINVAL);
}

static void
unix_socket_of_the_dead_is_replaced_of_the_living_not(void **state)
{
    char dir[] = "/tmp/gp-test-XXXXXX", addr[64];
    int first, second, client, accepted;

    assert_non_null(mkdtemp(dir));
    snprintf(addr, sizeof(addr), "unix:%s/sock", dir);
    assert_int_equal(gp_net_connect(addr, 0, UINT64_MAX, true, &client, NULL), -ENOENT);
    assert_int_equal(gp_net_listen(addr, 0, 4, &first, NULL), 0);
    assert_int_equal(gp_net_listen(addr, 0, 4, &second, NULL), -EADDRINUSE);
    close(first);
    assert_int_equal(gp_net_listen(addr, 0, 4, &second, NULL), 0);
    assert_int_equal(gp_net_connect(addr, 0, UINT64_MAX, true, &client, NULL), 0);
    assert_int_equal(gp_net_accept(second, &accepted), 0);
    close(accepted);
    close(client);
    close(second);
    unlink(addr + 5);
    rmdir(dir);
}

static void
file_is_replaced_whole(void **state)
{
    char dir[] = "/tmp/gp-test-XXXXXX", path[64], *back;
    size_t len;
    struct stat st;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a/b", dir);
    assert_int_equal(gp_file_mkdirs(path, 0700, NULL), 0);
    snprintf(path, sizeof(path), "%s/a/b/f", dir);
    assert_int_equal(gp_file_replace(path, "one", 3, 0600, NULL), 0);
    assert_int_equal(gp_file_replace(path, "three", 5, 0600, NULL), 0);
    assert_int_equal(gp_file_read(path, 100, &back, &len, NULL), 0);
    assert_string_equal(back, "three");
    free(back);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(gp_file_read(path, 4, &back, &len, NULL), -EFBIG);
    unlink(path);
    for (int i = 0; i < 3; i++) {
        *strrchr(path, '/') = 0;
        assert_int_equal(rmdir(path), 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_words_get_context_in_front),
        cmocka_unit_test(error_words_too_long_are_cut_not_overrun),
        cmocka_unit_test(white_space_is_trimmed_at_both_ends),
        cmocka_unit_test(number_must_fill_the_string),
        cmocka_unit_test(base64url_returns_what_went_in),
        cmocka_unit_test(base64url_refuses_second_spellings),
        cmocka_unit_test(siphash_gives_the_published_value),
        cmocka_unit_test(addresses_are_taken_apart),
        cmocka_unit_test(unix_socket_of_the_dead_is_replaced_of_the_living_not),
        cmocka_unit_test(file_is_replaced_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
