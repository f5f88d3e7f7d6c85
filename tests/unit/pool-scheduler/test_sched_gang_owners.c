/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs whose members have owners of their own, as the claims of a pod do: each counts
 * in the quota of its own tenant, and all are served at once or none.
 */
#include "ut_gang.h"

#include <stdio.h>
#include <string.h>

/* The only session of @owner. */
static Gpupool__Ctl__CtlOpen
member(const char *gang, uint32_t size, const char *owner, uint32_t core)
{
    Gpupool__Ctl__CtlOpen open = ut_gang_member(gang, size, core);

    open.owner = (char *)owner;
    open.once = true;
    return open;
}

static void
await_reason(const struct world *w, const char *words)
{
    char reason[256] = "";
    uint64_t end = gp_now_ns() + PATIENCE;

    while (!strstr(reason, words) && gp_now_ns() < end)
        ut_gang_waiting(w, reason, sizeof(reason));
    if (!strstr(reason, words))
        fail_msg("\"%s\" does not say \"%s\"", reason, words);
}

static void
members_of_several_owners_are_served_together(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 2), a = ut_sched_dial(w),
        b = ut_sched_dial(w), c = ut_sched_dial(w), d = ut_sched_dial(w);
    reply_t *first = ut_sched_granted(a, ut_sched_preference(100, 0)), *reply;
    Gpupool__Ctl__CtlOpen open = member("pod", 2, "kube:one", 60);

    ut_gang_waits(b, member("pod", 2, "kube:one", 60),
                  "gang pod: 1 of its 2 members have come");
    /* A gang of one owner is another one, whatever its name. */
    ut_gang_waits(d, ut_gang_member("pod", 2, 60),
                  "gang pod: 1 of its 2 members have come");
    reply = ut_sched_open(c, &open);
    ut_sched_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "gang pod has a member of owner kube:one already");
    ut_gang_waits(c, member("pod", 2, "kube:two", 60),
                  "gang pod: no room for all of its 2 members at once");
    ut_gang_finish(server, a, first->grant, 0);
    ut_sched_drop(first);
    ut_sched_drop(ut_gang_granted(b));
    ut_sched_drop(ut_gang_granted(c));
    assert_int_equal(ut_gang_waiting(w, NULL, 0), 1);
    close(server);
    close(a);
    close(b);
    close(c);
    close(d);
}

/* Both cards are used by halves, which others would take whenever one comes free. */
static void
cards_are_kept_for_all_of_them(void **state)
{
    struct world *w = *state;
    int server, a, b, c;
    reply_t *grants[4];
    Gpupool__Ctl__CtlOpen half = ut_sched_preference(50, GIB);
    reply_t *reply;

    ut_gang_start_with(w, "[queue]\nreserve-after = 0s\n");
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    c = ut_sched_dial(w);
    for (int i = 0; i < 4; i++)
        grants[i] = ut_sched_granted(a, half);
    ut_gang_waits(b, member("pod", 2, "kube:one", 100), "1 of its 2");
    ut_gang_waits(c, member("pod", 2, "kube:two", 100), "gang pod: ");
    await_reason(w, "cards are kept for all of its 2 members");
    for (int i = 0; i < 4; i++) {
        ut_sched_post_close(a, grants[i]->grant);
        ut_sched_await_notice(server, grants[i]->grant->session_id);
        ut_sched_drop(i < 3 ? ut_sched_report(server, grants[i + 1]->grant->session_id)
                            : ut_sched_report(server, 0));
        ut_sched_drop(ut_sched_hear(a));
        if (i == 3)
            break;
        reply = ut_sched_open(a, &half);
        ut_sched_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "");
    }
    ut_sched_drop(ut_gang_granted(b));
    ut_sched_drop(ut_gang_granted(c));
    for (int i = 0; i < 4; i++)
        ut_sched_drop(grants[i]);
    close(server);
    close(a);
    close(b);
    close(c);
}

#define TENANTS                                                                        \
    "[queue]\nreserve-after = 0s\n"                                                    \
    "[tenant red]\nowners = kube:red*\ncore = 100\n"                                   \
    "[tenant blue]\nowners = kube:blue*\ncore = 200\n"

static void
each_tenant_has_a_quota_of_its_own(void **state)
{
    struct world *w = *state;
    int server, a, b, c;
    reply_t *reply;

    ut_gang_start_with(w, TENANTS);
    server = ut_sched_join(w, "node-a", 4);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    c = ut_sched_dial(w);
    /* More than red may have, but not of red. */
    ut_gang_waits(a, member("pod", 3, "kube:red1", 50), "1 of its 3");
    ut_gang_waits(b, member("pod", 3, "kube:blue1", 100), "2 of its 3");
    ut_gang_post(c, member("pod", 3, "kube:red2", 50));
    ut_sched_drop(ut_gang_granted(a));
    ut_sched_drop(ut_gang_granted(b));
    ut_sched_drop(ut_gang_granted(c));
    /* The second tenant among them can never have so much: none of them waits. */
    ut_gang_waits(a, member("pod", 3, "kube:blue3", 100), "1 of its 3");
    ut_gang_waits(b, member("pod", 3, "kube:red3", 60), "2 of its 3");
    ut_gang_post(c, member("pod", 3, "kube:red4", 60));
    for (int i = 0; i < 3; i++) {
        int fd = i == 0 ? a : i == 1 ? b : c;

        while ((reply = ut_sched_hear(fd)) &&
               reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED)
            ut_sched_drop(reply);
        assert_non_null(reply);
        ut_sched_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                         "gang pod: quota: tenant red may hold 100 %");
    }
    assert_int_equal(ut_gang_waiting(w, NULL, 0), 0);
    close(server);
    close(a);
    close(b);
    close(c);
}

/* The quota that the gang waits for is kept for it, also of the second tenant; and goes
 * free when a member leaves. */
static void
quotas_of_all_tenants_are_kept(void **state)
{
    struct world *w = *state;
    int server, a, b, c;
    reply_t *grant;
    Gpupool__Ctl__CtlOpen red = member("", 0, "kube:red1", 80), more;
    uint64_t end = gp_now_ns() + PATIENCE;
    char words[256] = "";

    ut_gang_start_with(w, TENANTS);
    server = ut_sched_join(w, "node-a", 4);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    c = ut_sched_dial(w);
    red.wait = false;
    grant = ut_sched_granted(a, red);
    more = red;
    more.core = 20;
    more.owner = (char *)"kube:red9";
    ut_gang_waits(b, member("pod", 2, "kube:blue1", 100), "1 of its 2");
    ut_gang_waits(c, member("pod", 2, "kube:red2", 80),
                  "quota: tenant red may hold 100 %");
    while (!*words && gp_now_ns() < end) {
        reply_t *reply = ut_sched_open(a, &more);

        if (reply->error) {
            snprintf(words, sizeof(words), "%s", reply->error->words);
        } else {
            ut_sched_post_close(a, reply->grant);
            ut_sched_await_notice(server, reply->grant->session_id);
            ut_sched_drop(ut_sched_report(server, grant->grant->session_id));
            ut_sched_drop(ut_sched_hear(a));
        }
        ut_sched_drop(reply);
    }
    if (!strstr(words, "what tenant red has left is kept for an older request"))
        fail_msg("\"%s\"", words);
    close(b);
    ut_gang_await_waiting(w, 1);
    ut_sched_drop(ut_sched_granted(a, more));
    ut_sched_drop(grant);
    close(server);
    close(a);
    close(c);
}

/* Until @open would be refused because a quota is kept for another (@kept), or not. */
static void
await_quota(int fd, Gpupool__Ctl__CtlOpen open, bool kept)
{
    uint64_t end = gp_now_ns() + PATIENCE;
    bool is_kept = !kept;

    open.explain = true;
    while (is_kept != kept && gp_now_ns() < end) {
        reply_t *reply = ut_sched_open(fd, &open);

        is_kept =
            reply->error && strstr(reply->error->words, "is kept for an older request");
        ut_sched_drop(reply);
    }
    if (is_kept != kept)
        fail_msg("a quota is %skept", kept ? "not " : "");
}

/* While a gang waits for the quota of red, the server that it would need goes: nothing
 * of that quota is kept for what cannot be placed any more. */
static void
what_has_no_cards_any_more_keeps_no_quota(void **state)
{
    struct world *w = *state;
    int server, other, a, b, c;
    Gpupool__Ctl__CtlOpen red = member("", 0, "kube:red1", 80), more;
    reply_t *grant;

    ut_gang_start_with(w, TENANTS);
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    c = ut_sched_dial(w);
    red.wait = false;
    grant = ut_sched_granted(a, red);
    other = ut_sched_join(w, "other", 1);
    more = red;
    more.core = 20;
    more.owner = (char *)"kube:red9";
    ut_gang_waits(b, member("pod", 2, "kube:blue1", 100), "1 of its 2");
    ut_gang_waits(c, member("pod", 2, "kube:red2", 80),
                  "quota: tenant red may hold 100 %");
    await_quota(a, more, true);
    close(other);
    await_quota(a, more, false);
    ut_sched_drop(grant);
    close(server);
    close(a);
    close(b);
    close(c);
}

/* The same of one request alone; the quota comes free, and the server does not. */
static void
who_has_no_card_any_more_keeps_no_quota(void **state)
{
    struct world *w = *state;
    int server, other, a, b;
    Gpupool__Ctl__CtlOpen red = member("", 0, "kube:red1", 80), blue, more;
    reply_t *grant;

    ut_gang_start_with(w, TENANTS);
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    red.wait = false;
    grant = ut_sched_granted(a, red);
    other = ut_sched_join(w, "other", 1);
    blue = member("", 0, "kube:blue1", 100);
    blue.wait = false;
    ut_sched_drop(ut_sched_granted(a, blue));
    red = member("", 0, "kube:red2", 80);
    red.server = (char *)"other";
    ut_gang_waits(b, red, "quota: tenant red may hold 100 %");
    more = member("", 0, "kube:red9", 20);
    more.wait = false;
    await_quota(a, more, true);
    close(other);
    ut_gang_finish(server, a, grant->grant, 0);
    ut_sched_drop(ut_sched_hear(a));
    more.core = 40;
    await_quota(a, more, false);
    ut_sched_drop(grant);
    close(server);
    close(a);
    close(b);
}

/* A tick has chosen the card: @owner would not get it. */
static void
await_reserved(int fd, const char *owner)
{
    Gpupool__Ctl__CtlOpen open = member("", 0, owner, 30);
    uint64_t end = gp_now_ns() + PATIENCE;
    bool reserved = false;

    open.wait = false;
    open.explain = true;
    while (!reserved && gp_now_ns() < end) {
        reply_t *reply = ut_sched_open(fd, &open);

        reserved = reply->error;
        ut_sched_drop(reply);
    }
    assert_true(reserved);
}

/* A card is reserved for the owner of one member; another one's owner may not have it.
 */
static void
cards_reserved_for_one_owner_are_not_for_the_others(void **state)
{
    struct world *w = *state;
    int server, a, b;

    ut_gang_start_with(w, "[reservation exam]\nowners = kube:red*\ncards = 1\n"
                          "from = 2020-01-01T00:00Z\nuntil = 2120-01-01T00:00Z\n");
    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    await_reserved(b, "kube:blue1");
    ut_gang_waits(a, member("pod", 2, "kube:red1", 60), "1 of its 2");
    ut_gang_waits(b, member("pod", 2, "kube:blue1", 30),
                  "gang pod: no room for all of its 2 members at once");
    usleep(300000); /* some ticks */
    assert_int_equal(ut_gang_waiting(w, NULL, 0), 2);
    close(server);
    close(a);
    close(b);
}

#define T(name) cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        T(members_of_several_owners_are_served_together),
        T(cards_are_kept_for_all_of_them),
        T(each_tenant_has_a_quota_of_its_own),
        T(quotas_of_all_tenants_are_kept),
        T(what_has_no_cards_any_more_keeps_no_quota),
        T(who_has_no_card_any_more_keeps_no_quota),
        T(cards_reserved_for_one_owner_are_not_for_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
