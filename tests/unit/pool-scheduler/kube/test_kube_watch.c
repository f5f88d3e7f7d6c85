/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and watches against a server that plays what a real one was seen to do: pages,
 * chunks that end in the middle of a line, bookmarks, 429 with Retry-After, HTTP 200
 * with an ERROR event of code 410, links that break.
 *
 * The server is a thread that answers one connection after the other from a script; an
 * answer whose request does not hold the words that the script expects fails the test.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_loop.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_config.h"
#include "kube_http.h"
#include "kube_object.h"
#include "kube_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct step {
    const char *want;   /* in the request line */
    const char *answer; /* whole; NULL: hang up at once */
};

struct play {
    const struct step *steps;
    size_t n;
    int fd;
    pthread_t thread;
    char wrong[300];
    struct kube_config config;
    struct gp_loop *loop;
    struct kube_http *http;
    struct kube_watch watch;
    char log[600]; /* what on_change said */
    const char *until;
    struct gp_loop_timer limit;
};

static void
serve_one(struct play *play, const struct step *step)
{
    char request[4096];
    size_t len = 0;
    int fd = -1;

    while (gp_net_accept(play->fd, &fd) < 0)
        gp_net_wait(play->fd, 1 /* POLLIN */, gp_now_ns() + GP_NS_PER_S);
    while (len < sizeof(request) - 1) {
        ssize_t n;

        gp_net_wait(fd, 1, gp_now_ns() + GP_NS_PER_S);
        n = read(fd, request + len, sizeof(request) - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
        request[len] = '\0';
        if (strstr(request, "\r\n\r\n"))
            break;
    }
    request[strcspn(request, "\r\n")] = '\0';
    if (!strstr(request, step->want))
        snprintf(play->wrong, sizeof(play->wrong), "%.120s has no %.120s", request,
                 step->want);
    /* In small pieces, so that lines are cut anywhere. */
    for (const char *at = step->answer, *end = at ? at + strlen(at) : NULL; at < end;) {
        size_t n = (size_t)(end - at), most = n < 4096 ? 7 : 65536;
        ssize_t w = send(fd, at, n < most ? n : most, MSG_NOSIGNAL);

        if (w < 0 && errno == EAGAIN) {
            gp_net_wait(fd, 4 /* POLLOUT */, gp_now_ns() + GP_NS_PER_S);
            continue;
        }
        if (w <= 0)
            break;
        at += w;
    }
    close(fd);
}

static void *
serve(void *arg)
{
    struct play *play = arg;

    for (size_t i = 0; i < play->n; i++)
        serve_one(play, &play->steps[i]);
    return NULL;
}

static void
on_change(struct kube_watch *watch, const char *key, const json_t *object)
{
    struct play *play = watch->owner;
    size_t n = strlen(play->log);

    snprintf(play->log + n, sizeof(play->log) - n, "%s%s ", object ? "+" : "-", key);
    if (strstr(play->log, play->until))
        gp_loop_stop(play->loop, 0);
}

static void
too_late(struct gp_loop_timer *timer)
{
    gp_loop_stop(container_of(timer, struct play, limit)->loop, -1);
}

/* Play @steps until on_change has said @until. */
static void
run(struct play *play, const struct step *steps, size_t n, const char *until)
{
    static const struct kube_resource THINGS = {"/api/v1", "things", "Thing", true};
    char name[GP_NET_NAME_MAX];

    memset(play, 0, sizeof(*play));
    play->steps = steps;
    play->n = n;
    play->until = until;
    assert_int_equal(gp_net_listen("127.0.0.1:0", 0, 8, &play->fd, NULL), 0);
    gp_net_own_name(play->fd, name, sizeof(name));
    play->config.server = gp_str_printf("http://%s", name);
    assert_int_equal(pthread_create(&play->thread, NULL, serve, play), 0);
    assert_int_equal(gp_loop_new(&play->loop, NULL), 0);
    assert_int_equal(kube_http_new(&play->config, play->loop, &play->http, NULL), 0);
    play->watch.res = &THINGS;
    play->watch.on_change = on_change;
    play->watch.owner = play;
    assert_int_equal(kube_watch_start(&play->watch, play->http, play->loop, NULL), 0);
    gp_loop_timer_set(play->loop, &play->limit, gp_now_ns() + 20 * GP_NS_PER_S,
                      too_late);
    if (gp_loop_run(play->loop) < 0)
        fail_msg("only \"%s\"", play->log);
    pthread_join(play->thread, NULL);
    if (*play->wrong)
        fail_msg("%s", play->wrong);
}

static void
end(struct play *play)
{
    gp_loop_timer_del(&play->limit);
    kube_watch_stop(&play->watch);
    kube_http_free(play->http);
    gp_loop_free(play->loop);
    kube_config_fini(&play->config);
    close(play->fd);
}

#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define THING(name, version)                                                           \
    "{\"metadata\":{\"namespace\":\"n\",\"name\":\"" name "\",\"uid\":\"u-" name       \
    "\",\"resourceVersion\":\"" version "\"}}"
#define LIST(version, items)                                                           \
    HEAD "{\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"
#define EVENT(type, name, version)                                                     \
    "{\"type\":\"" type "\",\"object\":" THING(name, version) "}\n"

static void
a_list_in_pages_then_a_watch(void **state)
{
    static const struct step STEPS[] = {
        {"GET /api/v1/things?limit=500 ",
         HEAD "{\"metadata\":{\"resourceVersion\":\"10\",\"continue\":\"abc\"},"
              "\"items\":[" THING("a", "3") "]}"},
        {"continue=abc", LIST("10", THING("b", "4"))},
        {"resourceVersion=10",
         HEAD EVENT("MODIFIED", "a", "11") EVENT("DELETED", "b", "12")},
    };
    struct play p;

    run(&p, STEPS, ARRAY_SIZE(STEPS), "+n/a +n/b +n/a -n/b ");
    assert_int_equal(kube_revision(kube_watch_get(&p.watch, "n", "a")), 11);
    assert_null(kube_watch_get(&p.watch, "n", "b"));
    end(&p);
}

static void
chunks_end_anywhere(void **state)
{
    static const struct step STEPS[] = {
        {"limit=", LIST("1", "")},
        {"watch=1",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         "5\r\n{\"typ\r\n"
         "14\r\ne\":\"ADDED\",\"object\":\r\n"
         "36\r\n{\"metadata\":{\"namespace\":\"n\",\"name\":\"a\",\"uid\":\"u\","
         "\"res\r\n"
         "1a\r\nourceVersion\":\"2\"}}}\n\n\n\n\n\n\r\n0\r\n\r\n"},
    };
    struct play p;

    run(&p, STEPS, ARRAY_SIZE(STEPS), "+n/a ");
    end(&p);
}

static void
a_bookmark_moves_the_version_and_changes_nothing(void **state)
{
    static const struct step STEPS[] = {
        {"limit=", LIST("1", THING("a", "1"))},
        {"resourceVersion=1 ", HEAD EVENT("BOOKMARK", "", "77")},
        {"resourceVersion=77", HEAD EVENT("ADDED", "b", "78")},
    };
    struct play p;

    run(&p, STEPS, ARRAY_SIZE(STEPS), "+n/a +n/b ");
    end(&p);
}

static void
http_200_with_code_410_lists_again_and_finds_what_went(void **state)
{
    static const struct step STEPS[] = {
        {"limit=", LIST("1", THING("a", "1") "," THING("b", "1"))},
        {"watch=1", HEAD "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\","
                         "\"code\":410,\"message\":\"too old\"}}\n"},
        {"limit=500 ", LIST("50", THING("b", "1") "," THING("c", "40"))},
    };
    struct play p;

    run(&p, STEPS, ARRAY_SIZE(STEPS), "+n/a +n/b +n/c -n/a ");
    end(&p);
}

static void
a_busy_server_is_asked_again_when_it_says(void **state)
{
    static const struct step STEPS[] = {
        {"limit=", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n"
                   "Connection: close\r\n\r\nstorage is (re)initializing"},
        {"limit=", NULL}, /* and then it hangs up */
        {"limit=", LIST("1", THING("a", "1"))},
    };
    uint64_t begin = gp_now_ns();
    struct play p;

    run(&p, STEPS, ARRAY_SIZE(STEPS), "+n/a ");
    assert_true(gp_now_ns() - begin >= GP_NS_PER_S);
    end(&p);
}

static void
a_page_that_expired_begins_the_list_anew(void **state)
{
    static const struct step STEPS[] = {
        {"limit=500 ", HEAD "{\"metadata\":{\"resourceVersion\":\"10\",\"continue\":"
                            "\"abc\"},\"items\":[" THING("a", "3") "]}"},
        {"continue=abc", "HTTP/1.1 410 Gone\r\nConnection: close\r\n\r\n{}"},
        {"limit=500 ", LIST("20", THING("b", "19"))},
    };
    struct play p;

    run(&p, STEPS, ARRAY_SIZE(STEPS), "+n/a +n/b -n/a ");
    end(&p);
}

static void
a_page_that_is_too_long_is_asked_for_in_halves(void **state)
{
    const size_t large = KUBE_PAGE_MAX + 1;
    CLEANUP_FREE char *spaces = malloc(large + 1);
    CLEANUP_FREE char *answer = NULL;
    struct play p;

    memset(spaces, ' ', large);
    spaces[large] = '\0';
    answer = gp_str_printf("%s{\"items\":[%s", HEAD, spaces);
    {
        const struct step steps[] = {
            {"limit=500 ", answer},
            {"limit=250 ",
             HEAD "{\"metadata\":{\"resourceVersion\":\"10\","
                  "\"continue\":\"abc\"},\"items\":[" THING("a", "3") "]}"},
            {"limit=250&continue=abc", answer},
            {"limit=125&continue=abc", LIST("10", THING("b", "4"))},
            {"watch=1", HEAD "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\","
                             "\"code\":410,\"message\":\"too old\"}}\n"},
            {"limit=500 ", LIST("50", THING("c", "40"))},
        };

        run(&p, steps, ARRAY_SIZE(steps), "-n/a -n/b ");
    }
    end(&p);
}

static void
of_annotations_only_ours_are_kept(void **state)
{
    CLEANUP_JSON json_t *object = json_loads(
        "{\"metadata\":{\"annotations\":{\"elasticgpu.io/shared\":\"1\","
        "\"egpuc.elasticgpu.io/main\":\"2\",\"a/b\":\"3\",\"elasticgpu.io\":\"4\","
        "\"notelasticgpu.io/x\":\"5\",\"x/elasticgpu.io/y\":\"6\"}}}",
        0, NULL);
    CLEANUP_JSON json_t *bare = json_pack("{s:{s:s}}", "metadata", "name", "x");

    kube_trim_annotations(object, "a/b");
    assert_int_equal(json_object_size(kube_at(object, "metadata.annotations")), 3);
    assert_string_equal(kube_str_key(object, "metadata.annotations", "a/b"), "3");
    kube_trim_annotations(object, NULL);
    assert_int_equal(json_object_size(kube_at(object, "metadata.annotations")), 2);
    assert_string_equal(
        kube_str_key(object, "metadata.annotations", "egpuc.elasticgpu.io/main"), "2");
    kube_trim_annotations(bare, NULL);
    assert_null(kube_at(bare, "metadata.annotations"));
}

static void
what_we_wrote_is_not_undone_by_an_older_event(void **state)
{
    static const struct step STEPS[] = {{"limit=", LIST("1", THING("a", "5"))}};
    CLEANUP_JSON json_t *newer = json_loads(THING("a", "9"), 0, NULL);
    CLEANUP_JSON json_t *older = json_loads(THING("a", "7"), 0, NULL);
    struct play p;

    run(&p, STEPS, ARRAY_SIZE(STEPS), "+n/a ");
    kube_watch_put(&p.watch, newer);
    kube_watch_put(&p.watch, older);
    assert_int_equal(kube_revision(kube_watch_get(&p.watch, "n", "a")), 9);
    assert_string_equal(p.log, "+n/a +n/a ");
    end(&p);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_in_pages_then_a_watch),
        cmocka_unit_test(chunks_end_anywhere),
        cmocka_unit_test(a_bookmark_moves_the_version_and_changes_nothing),
        cmocka_unit_test(http_200_with_code_410_lists_again_and_finds_what_went),
        cmocka_unit_test(a_busy_server_is_asked_again_when_it_says),
        cmocka_unit_test(a_page_that_expired_begins_the_list_anew),
        cmocka_unit_test(a_page_that_is_too_long_is_asked_for_in_halves),
        cmocka_unit_test(of_annotations_only_ours_are_kept),
        cmocka_unit_test(what_we_wrote_is_not_undone_by_an_older_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
