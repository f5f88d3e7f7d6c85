/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that begins over RDMA (ut_verbs.h), is cut at a random byte and goes on
 * over sockets (ut_resume.h) or over RDMA again: what either end sends arrives at the
 * other exactly once.
 */
#include "ut_resume.h"
#include "ut_verbs.h"
#include "xport_resume_rdma.h"

#define ROUNDS 150u

static void
begin_over_rdma(int64_t left, bool manager_too)
{
    struct xport_conn *rdma[2];

    ut_verbs_pair(FRAME_MAX, left, manager_too, rdma);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            xport_resume_new_rdma(rdma[i], &owner[i], &meeting.conn[i], NULL), 0);
}

/* @most bytes go over RDMA at most, and @then over each socket. */
static void
talk(uint32_t seed, uint32_t most, uint32_t then, uint32_t frames)
{
    uint32_t state = seed * 7919u;

    meeting_begin(seed, then, 0);
    meeting.pieces = true;
    meeting.payload_max = 700u << 10; /* some are offered, which begins at 256 KiB */
    begin_over_rdma((int64_t)draw(&state, most), draw(&state, 2));
    assert_int_equal(xport_link_kind(meeting.conn[0]), XPORT_KIND_RDMA);
    talk_through(seed, frames, draw(&state, 2));
    ut_verbs_pair_end();
    for (int i = 0; i < 2 && meeting.cuts && !meeting.other_link; i++)
        assert_int_equal(meeting.kind[i], XPORT_KIND_TCP);
}

static void
test_cut_at_every_byte(void **state)
{
    uint64_t replayed = 0, cuts = 0;
    uint32_t draws = first_seed();

    (void)state;
    ut_adapter.reads_cut = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        draw(&draws, 2);
        talk(draws, 1u << (14 + i % 10), UINT32_MAX >> 2, 20);
        replayed += meeting.replayed;
        cuts += meeting.cuts;
    }
    print_message("%llu cuts, %u READs among them, %llu bytes sent again\n",
                  (unsigned long long)cuts, ut_adapter.reads_cut,
                  (unsigned long long)replayed);
    assert_true(cuts > ROUNDS / 2);
    assert_true(ut_adapter.reads_cut > 0);
}

/* ---- there and back ----------------------------------------------------------------
 */

#define LINKS 12u /* the last of them is not cut */
#ifdef GP_SANITIZED
#define CONVERSATIONS (ROUNDS / 15)
#else
#define CONVERSATIONS (ROUNDS / 2)
#endif

static unsigned back_to_rdma, rdma_to_rdma;

/* Under the lock of the meeting; both ends are in reconnect(). */
static bool
rdma_again(struct xport_resume_link link[2])
{
    bool last = meeting.cuts >= LINKS;
    struct rdma_conn *end[2];
    int fd[2];

    if (last)
        meeting.most = UINT32_MAX >> 2;
    if (draw(&meeting.seed, 3) == 0)
        return false;
    for (int i = 0; i < 2; i++)
        end[i] = xport_resume_of(meeting.conn[i])->rdma->rdma;
    ut_verbs_again(end, last ? INT64_MAX : draw(&meeting.seed, 300u << 10), fd);
    for (int i = 0; i < 2; i++)
        link[i] = (struct xport_resume_link){.rdma = true, .fd = fd[i], .ack_fd = -1};
    return true;
}

static bool
rdma_again_counts(struct xport_resume_link link[2])
{
    static bool was;
    bool is = rdma_again(link);

    was = meeting.cuts == 1 || was;
    rdma_to_rdma += was && is;
    back_to_rdma += !was && is;
    was = is;
    return is;
}

static void
test_cuts_there_and_back(void **state)
{
    uint64_t replayed = 0, cuts = 0;

    (void)state;
    meeting.other_link = rdma_again_counts;
    for (uint32_t i = 0; i < CONVERSATIONS; i++) {
        talk(first_seed() + 5000 + i, 1u << (14 + i % 6), 200u << 10, 60);
        replayed += meeting.replayed;
        cuts += meeting.cuts;
    }
    meeting.other_link = NULL;
    print_message("%llu cuts, after which %u links over TCP and %u over RDMA were "
                  "replaced by one over RDMA, %llu bytes sent again\n",
                  (unsigned long long)cuts, back_to_rdma, rdma_to_rdma,
                  (unsigned long long)replayed);
    assert_true(back_to_rdma > CONVERSATIONS / 2);
    assert_true(rdma_to_rdma > CONVERSATIONS / 2);
}

/* ---- windows -----------------------------------------------------------------------
 *
 * The second end has a card: it sends what the adapter reads there, and receives what
 * the adapter writes there, as the worker does.
 */

#define CARD (700u << 10)
#define CARD_CHUNK (200u << 10)
#define AHEAD 2

static uint8_t card_down[CARD], card_up[CARD];
static _Atomic unsigned n_direct, n_given_back;

static uint64_t
stream_at(const struct xport_conn *conn)
{
    return xport_sent(conn) + xport_pending(conn);
}

/* How many bytes have gone straight from the card. */
static uint32_t
send_from_card(struct xport_conn *conn, uint32_t len)
{
    uint64_t begun = stream_at(conn), ticket[AHEAD] = {0};
    uint32_t sent = 0;
    int r = 0;

    for (unsigned i = 0; sent < len && r == 0; i++) {
        uint32_t n = gp_min(len - sent, CARD_CHUNK);

        assert_int_equal(xport_send_bulk_wait(conn, ticket[i % AHEAD]), 0);
        r = xport_send_bulk_direct(conn, (uintptr_t)card_down + sent, n,
                                   &ticket[i % AHEAD]);
        assert_true(r == 0 || r == -EOPNOTSUPP);
        sent += r == 0 ? n : 0;
    }
    for (unsigned i = 0; i < AHEAD; i++)
        assert_int_equal(xport_send_bulk_wait(conn, ticket[i]), 0);
    n_direct += sent > 0;
    n_given_back += stream_at(conn) - begun < sent;
    return (uint32_t)(stream_at(conn) - begun);
}

static void *
card_sender_main(void *arg)
{
    struct end *e = arg;
    uint32_t state = e->seed;

    for (uint32_t i = 0; i < e->frames; i++) {
        struct message *m = xport_reserve(e->conn, sizeof(*m));
        uint32_t len = 1 + draw(&state, CARD - 1), sent;

        assert_non_null(m);
        *m = (struct message){.size = sizeof(*m), .number = i, .payload = len};
        xport_commit(e->conn, sizeof(*m));
        fill(card_down, len, i + 1);
        sent = send_from_card(e->conn, len);
        assert_int_equal(xport_send_bulk(e->conn, card_down + sent, len - sent), 0);
        memset(card_down, 0xdd, len);
    }
    return NULL;
}

static void *
card_receiver_main(void *arg)
{
    static uint8_t wanted[CARD];
    struct end *e = arg;

    for (uint32_t i = 0; i < e->frames; i++) {
        const void *frame;
        struct message m;
        uint32_t size;

        assert_int_equal(xport_recv(e->conn, &frame, &size, GP_FOREVER), 0);
        memcpy(&m, frame, sizeof(m));
        assert_int_equal(m.number, i);
        memset(card_up, 0, m.payload);
        for (size_t at = 0, n; at < m.payload; at += n) {
            assert_int_equal(xport_recv_bulk_direct(e->conn, (uintptr_t)card_up + at,
                                                    m.payload - at, &n),
                             0);
            if (n)
                continue;
            n = gp_min(m.payload - at, (size_t)CARD_CHUNK);
            assert_int_equal(xport_recv_bulk(e->conn, card_up + at, n), 0);
        }
        fill(wanted, m.payload, i + 1);
        assert_memory_equal(card_up, wanted, m.payload);
    }
    read_on(e);
    return NULL;
}

/* What the adapter had not moved when the link broke goes the usual way. */
static void
test_cut_within_windows(void **state)
{
    static const struct parts parts[2] = {{sender_main, receiver_main},
                                          {card_sender_main, card_receiver_main}};
    uint64_t cuts = 0;

    (void)state;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t draws = (first_seed() + i) * 7919u;

        meeting_begin(first_seed() + 1000 + i, UINT32_MAX >> 2, 0);
        meeting.pieces = true;
        meeting.payload_max = CARD;
        begin_over_rdma((int64_t)draw(&draws, 6u << 20), i % 2);
        assert_int_equal(
            xport_window_add(meeting.conn[1], (uintptr_t)card_down, CARD, -1, NULL), 0);
        assert_int_equal(
            xport_window_add(meeting.conn[1], (uintptr_t)card_up, CARD, -1, NULL), 0);
        talk_by(parts, meeting.seed, 10, false);
        ut_verbs_pair_end();
        cuts += meeting.cuts;
    }
    print_message("%llu cuts; %u payloads straight from the card, %u in part only\n",
                  (unsigned long long)cuts, n_direct, n_given_back);
    assert_true(cuts > ROUNDS / 2);
    assert_true(n_direct > ROUNDS && n_given_back > 0);
}

/* ---- single promises --------------------------------------------------------------
 */

static int asked; /* for new links */

static int
nobody_comes(struct xport_conn *conn, const struct xport_resume_have *have,
             struct xport_resume_link *ret)
{
    (void)conn, (void)have, (void)ret;
    asked++;
    return -ETIME;
}

static const struct xport_resume_owner alone[2] = {
    {.reconnect = nobody_comes}, {.reconnect = nobody_comes, .knocks = never_knocks}};

static void
pair_alone(struct xport_conn *conn[2], int64_t left)
{
    struct xport_conn *rdma[2];

    asked = 0;
    ut_verbs_pair(FRAME_MAX, left, false, rdma);
    for (int i = 0; i < 2; i++)
        assert_int_equal(xport_resume_new_rdma(rdma[i], &alone[i], &conn[i], NULL), 0);
}

static void
pair_free(struct xport_conn *conn[2])
{
    xport_free(conn[0]);
    xport_free(conn[1]);
    ut_verbs_pair_end();
}

static void
send_frame(struct xport_conn *conn)
{
    struct message *m = xport_reserve(conn, sizeof(*m));

    assert_non_null(m);
    *m = (struct message){.size = sizeof(*m)};
    xport_commit(conn, sizeof(*m));
}

/* Who is connected to asks for no link then. */
static void
test_goodbye_ends_the_other_end(void **state)
{
    struct xport_conn *conn[2];
    const void *frame;
    uint32_t size;

    (void)state;
    pair_alone(conn, INT64_MAX);
    send_frame(conn[0]);
    xport_resume_goodbye(conn[0]);
    shutdown(conn[0]->fd, SHUT_RDWR); /* as the process ends */
    assert_int_equal(xport_recv(conn[1], &frame, &size, GP_FOREVER), 0);
    assert_int_equal(size, sizeof(struct message));
    assert_int_equal(xport_recv(conn[1], &frame, &size, GP_FOREVER), -ECONNRESET);
    assert_int_equal(asked, 0);
    pair_free(conn);
}

/* The end that connects may only send for a while: its looks find out, and they need no
 * timer once all has arrived. */
static void
test_look_finds_a_link_that_is_broken(void **state)
{
    struct xport_conn *conn[2];

    (void)state;
    pair_alone(conn, 64);
    send_frame(conn[0]);
    assert_int_equal(xport_flush(conn[0]), 0);
    while (xport_look(conn[0]))
        usleep(100);
    assert_int_equal(xport_error(conn[0]), 0);
    assert_false(xport_look(conn[0]));
    for (int i = 0; i < 8; i++)
        send_frame(conn[0]);
    assert_int_equal(xport_flush(conn[0]), 0);
    while (xport_look(conn[0]))
        usleep(100);
    assert_int_equal(xport_error(conn[0]), -ETIME);
    assert_int_equal(asked, 1);
    pair_free(conn);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_within_windows),
        cmocka_unit_test(test_goodbye_ends_the_other_end),
        cmocka_unit_test(test_look_finds_a_link_that_is_broken),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_cuts_there_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
