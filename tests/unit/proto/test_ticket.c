/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: what is signed is what is read, and nothing else passes. */
#include "ut.h"

#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "ticket.h"
#include "ticket_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NOW UINT64_C(1800000000)

static struct ticket_key *key, *other_key;

static int
setup(void **state)
{
    return ticket_key_generate(&key, NULL) || ticket_key_generate(&other_key, NULL);
}

static int
teardown(void **state)
{
    ticket_key_free(key);
    ticket_key_free(other_key);
    return 0;
}

static struct ticket_claims
sample(void)
{
    struct ticket_claims c = {
        .session_id = 7,
        .session = "s7",
        .server = "node-a",
        .n_slices = 2,
        .policy = TICKET_BURST_SHARE,
        .offline = true,
        .owner = "ada@host",
        .not_before = NOW - 30,
        .expires = NOW + 30,
        .max_attachments = 64,
    };

    for (uint8_t i = 0; i < 2; i++) {
        memset(c.slices[i].card_uuid, 0xa0 + i, TICKET_UUID_SIZE);
        c.slices[i].core = 30;
        c.slices[i].core_limit = 50;
        c.slices[i].memory = UINT64_C(1) << 30;
    }
    return c;
}

static char *
signed_sample(void)
{
    struct ticket_claims c = sample();
    char *text = NULL;

    assert_int_equal(ticket_sign(key, &c, &text, NULL), 0);
    return text;
}

static void
assert_refused(const char *text, uint64_t now, const char *server, int code,
               const char *words)
{
    struct ticket_claims c;
    struct gp_err err = {0};

    assert_int_equal(ticket_verify(key, text, now, server, &c, &err), code);
    if (!strstr(err.msg, words))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, words);
}

static void
ticket_says_what_was_signed(void **state)
{
    char *text = signed_sample();
    struct ticket_claims c, want = sample();
    struct gp_err err = {0};

    assert_int_equal(ticket_verify(key, text, NOW, "node-a", &c, &err), 0);
    assert_int_equal(c.session_id, want.session_id);
    assert_string_equal(c.session, want.session);
    assert_string_equal(c.server, want.server);
    assert_string_equal(c.owner, want.owner);
    assert_string_equal(c.key_id, ticket_key_id(key));
    assert_int_equal(c.policy, want.policy);
    assert_true(c.offline);
    assert_int_equal(c.n_slices, 2);
    assert_memory_equal(&c.slices[1], &want.slices[1], sizeof(c.slices[1]));
    assert_int_equal(c.max_attachments, 64);
    free(text);
}

static void
ticket_of_the_largest_session_fits(void **state)
{
    struct ticket_claims c = sample();
    char *text = NULL;

    c.n_slices = TICKET_SLICES_MAX;
    memset(c.owner, 'o', sizeof(c.owner) - 1);
    memset(c.session, 's', sizeof(c.session) - 1);
    memset(c.server, 'n', sizeof(c.server) - 1);
    for (int i = 0; i < TICKET_SLICES_MAX; i++) {
        memset(c.slices[i].card_uuid, i, TICKET_UUID_SIZE);
        c.slices[i].core = c.slices[i].core_limit = 100;
        c.slices[i].memory = UINT64_MAX;
    }
    assert_int_equal(ticket_sign(key, &c, &text, NULL), 0);
    assert_int_equal(ticket_verify(key, text, NOW, c.server, &c, NULL), 0);
    free(text);
}

static void
ticket_has_an_exact_lifetime(void **state)
{
    char *text = signed_sample();
    struct ticket_claims c;

    assert_int_equal(ticket_verify(key, text, NOW - 30, "node-a", &c, NULL), 0);
    assert_int_equal(ticket_verify(key, text, NOW + 29, "node-a", &c, NULL), 0);
    assert_refused(text, NOW + 30, "node-a", -EKEYEXPIRED, "expired");
    assert_refused(text, NOW + 90, "node-a", -EKEYEXPIRED, "60 s ago");
    assert_refused(text, NOW - 31, "node-a", -EAGAIN, "not valid yet");
    free(text);
}

static void
ticket_is_refused_by_another_server(void **state)
{
    char *text = signed_sample();

    assert_refused(text, NOW, "node-b", -EXDEV, "another server (node-a)");
    free(text);
}

static void
ticket_of_another_scheduler_is_forged(void **state)
{
    struct ticket_claims c = sample();
    char *text = NULL;

    assert_int_equal(ticket_sign(other_key, &c, &text, NULL), 0);
    assert_refused(text, NOW, "node-a", -EKEYREJECTED, "forged");
    free(text);
}

static void
ticket_with_any_bit_flipped_is_refused(void **state)
{
    char *text = signed_sample();
    struct ticket_claims c;
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        for (int bit = 0; bit < 8; bit++) {
            int r;

            text[i] = (char)(text[i] ^ 1 << bit);
            r = ticket_verify(key, text, NOW, "node-a", &c, NULL);
            if (r != -EBADMSG && r != -EKEYREJECTED)
                fail_msg("character %zu bit %d: %d", i, bit, r);
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    free(text);
}

static void
ticket_cut_anywhere_is_refused(void **state)
{
    char *text = signed_sample();

    for (size_t len = strlen(text); len-- > 0;) {
        struct ticket_claims c;
        int r;

        text[len] = 0;
        r = ticket_verify(key, text, NOW, "node-a", &c, NULL);
        assert_true(r == -EBADMSG || r == -EKEYREJECTED);
    }
    free(text);
}

static void
ticket_text_that_is_none_is_malformed(void **state)
{
    static char huge[TICKET_TEXT_MAX + 100];

    memset(huge, 'A', sizeof(huge) - 1);
    assert_refused("", NOW, "node-a", -EBADMSG, "malformed");
    assert_refused(".", NOW, "node-a", -EBADMSG, "malformed");
    assert_refused("hello.world", NOW, "node-a", -EBADMSG, "malformed");
    assert_refused(huge, NOW, "node-a", -EBADMSG, "longer than any ticket");
}

/* The same key signs other bytes under another name: they are no ticket. */
static void
signature_for_another_purpose_is_no_ticket(void **state)
{
    char *text = signed_sample(), *dot = strchr(text, '.'), forged[TICKET_TEXT_MAX];
    uint8_t *claims, sig[TICKET_SIG_SIZE];
    char *sig_text;
    size_t size;

    assert_int_equal(gp_b64_decode(text, (size_t)(dot - text), &claims, &size), 0);
    assert_int_equal(ticket_key_sign(key, "another-purpose", claims, size, sig, NULL),
                     0);
    sig_text = gp_b64_encode(sig, sizeof(sig));
    *dot = 0;
    snprintf(forged, sizeof(forged), "%s.%s", text, sig_text);
    assert_refused(forged, NOW, "node-a", -EKEYREJECTED, "forged");
    free(claims);
    free(sig_text);
    free(text);
}

static void
claims_out_of_bounds_are_not_signed(void **state)
{
    struct ticket_claims c;
    char *text = NULL;

#define REFUSED(change)                                                                \
    c = sample();                                                                      \
    change;                                                                            \
    assert_int_equal(ticket_sign(key, &c, &text, NULL), -EINVAL)
    REFUSED(c.slices[0].core = 0);
    REFUSED(c.slices[0].core = 101);
    REFUSED(c.slices[0].core_limit = 29);
    REFUSED(c.slices[0].core_limit = 101);
    REFUSED(c.slices[1].memory = 0);
    REFUSED(c.n_slices = 0);
    REFUSED(c.n_slices = TICKET_SLICES_MAX + 1);
    REFUSED(c.expires = c.not_before);
    REFUSED(c.max_attachments = 0);
    REFUSED(c.session[0] = 0);
    REFUSED(c.session[1] = '\n');
    REFUSED(c.server[0] = 0);
    REFUSED(c.policy = (enum ticket_policy)3);
#undef REFUSED
    assert_null(text);
}

static void
key_file_is_private_and_comes_back(void **state)
{
    char dir[] = "/tmp/ut-ticket-XXXXXX", path[64], pub_path[64];
    struct ticket_key *first, *again;
    struct ticket_keys *pub;
    struct gp_err err = {0};
    struct stat st;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/key", dir);
    snprintf(pub_path, sizeof(pub_path), "%s/pub", dir);
    assert_int_equal(ticket_key_load(path, &first, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(ticket_key_load(path, &again, &err), 0);
    assert_string_equal(ticket_key_id(first), ticket_key_id(again));
    assert_int_equal(ticket_key_save_pub(first, NULL, pub_path, &err), 0);
    assert_int_equal(ticket_keys_load(pub_path, &pub, &err), 0);
    assert_string_equal(ticket_key_id(first), ticket_key_id(ticket_keys_first(pub)));
    assert_int_equal(chmod(path, 0640), 0);
    ticket_key_free(again);
    assert_int_equal(ticket_key_load(path, &again, &err), -EPERM);
    assert_non_null(strstr(err.msg, "lets others read"));
    ticket_key_free(first);
    ticket_keys_free(pub);
    unlink(path);
    unlink(pub_path);
    rmdir(dir);
}

static void
either_of_two_keys_is_good_and_a_third_is_not(void **state)
{
    struct ticket_key *made[3];
    char dir[] = "/tmp/ut-ticket-XXXXXX", path[64];
    CLEANUP(ticket_keys_freep) struct ticket_keys *keys = NULL;
    struct ticket_keys *none = NULL;
    struct ticket_claims claims = sample(), seen;
    struct gp_err err = {0};

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/pub", dir);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(ticket_key_generate(&made[i], &err), 0);
    assert_int_equal(ticket_key_save_pub(made[0], made[1], path, &err), 0);
    assert_int_equal(ticket_keys_load(path, &keys, &err), 0);
    assert_int_equal(ticket_keys_count(keys), 2);
    for (size_t i = 0; i < 3; i++) {
        CLEANUP_FREE char *text = NULL;

        assert_int_equal(ticket_sign(made[i], &claims, &text, &err), 0);
        assert_int_equal(ticket_keys_have(keys, ticket_key_pub(made[i])), i < 2);
        assert_int_equal(ticket_keys_verify(keys, text, claims.not_before,
                                            claims.server, &seen, &err),
                         i < 2 ? 0 : -EKEYREJECTED);
    }
    assert_int_equal(ticket_keys_parse("", &none, &err), -EBADMSG);
    assert_int_equal(ticket_keys_parse("AAAA", &none, &err), -EBADMSG);
    assert_int_equal(ticket_keys_parse("???", &none, &err), -EBADMSG);
    assert_null(none);
    for (size_t i = 0; i < 3; i++)
        ticket_key_free(made[i]);
    unlink(path);
    rmdir(dir);
}

static void
key_kept_elsewhere_may_be_read_by_its_group_and_is_never_made(void **state)
{
    char dir[] = "/tmp/ut-ticket-XXXXXX", path[64];
    struct ticket_key *first, *again;
    struct gp_err err = {0};

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/key", dir);
    assert_int_equal(ticket_key_open(path, &again, &err), -ENOENT);
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(ticket_key_load(path, &first, &err), 0);
    assert_int_equal(chmod(path, 0440), 0); /* as kubelets write Secrets */
    assert_int_equal(ticket_key_open(path, &again, &err), 0);
    assert_string_equal(ticket_key_id(first), ticket_key_id(again));
    ticket_key_free(again);
    for (size_t i = 0; i < 3; i++) {
        static const mode_t MODES[] = {0644, 0460, 0442};

        assert_int_equal(chmod(path, MODES[i]), 0);
        assert_int_equal(ticket_key_open(path, &again, &err), -EPERM);
    }
    ticket_key_free(first);
    unlink(path);
    rmdir(dir);
}

static void
public_key_cannot_sign(void **state)
{
    struct ticket_claims c = sample();
    struct ticket_key *pub;
    char *text = NULL;

    assert_int_equal(
        ticket_key_from_pub(ticket_key_pub(key), TICKET_PUB_SIZE, &pub, NULL), 0);
    assert_true(ticket_sign(pub, &c, &text, NULL) < 0);
    assert_null(text);
    ticket_key_free(pub);
    assert_int_equal(ticket_key_from_pub(ticket_key_pub(key), 31, &pub, NULL),
                     -EBADMSG);
}

static void
uuid_text_is_read_back(void **state)
{
    uint8_t uuid[16], again[16];
    char text[TICKET_UUID_TEXT];

    for (uint8_t i = 0; i < 16; i++)
        uuid[i] = (uint8_t)(i * 17);
    ticket_uuid_format(uuid, text);
    assert_string_equal(text, "GPU-00112233-4455-6677-8899-aabbccddeeff");
    assert_int_equal(ticket_uuid_parse(text, again), 0);
    assert_memory_equal(uuid, again, 16);
    assert_int_equal(
        ticket_uuid_parse("GPU-00112233445566778899-aabbccddeeff----", again), -EINVAL);
    assert_int_equal(ticket_uuid_parse("00112233-4455-6677-8899-aabbccddeeff", again),
                     -EINVAL);
}

static void
policies_have_long_and_short_names(void **state)
{
    enum ticket_policy policy;

    assert_int_equal(ticket_policy_parse("bs", &policy), 0);
    assert_int_equal(policy, TICKET_BURST_SHARE);
    assert_int_equal(
        ticket_policy_parse(ticket_policy_name(TICKET_BEST_EFFORT), &policy), 0);
    assert_int_equal(policy, TICKET_BEST_EFFORT);
    assert_int_equal(ticket_policy_parse("fair", &policy), -EINVAL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticket_says_what_was_signed),
        cmocka_unit_test(ticket_of_the_largest_session_fits),
        cmocka_unit_test(ticket_has_an_exact_lifetime),
        cmocka_unit_test(ticket_is_refused_by_another_server),
        cmocka_unit_test(ticket_of_another_scheduler_is_forged),
        cmocka_unit_test(ticket_with_any_bit_flipped_is_refused),
        cmocka_unit_test(ticket_cut_anywhere_is_refused),
        cmocka_unit_test(ticket_text_that_is_none_is_malformed),
        cmocka_unit_test(signature_for_another_purpose_is_no_ticket),
        cmocka_unit_test(claims_out_of_bounds_are_not_signed),
        cmocka_unit_test(key_file_is_private_and_comes_back),
        cmocka_unit_test(either_of_two_keys_is_good_and_a_third_is_not),
        cmocka_unit_test(key_kept_elsewhere_may_be_read_by_its_group_and_is_never_made),
        cmocka_unit_test(public_key_cannot_sign),
        cmocka_unit_test(uuid_text_is_read_back),
        cmocka_unit_test(policies_have_long_and_short_names),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
