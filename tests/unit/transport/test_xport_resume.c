/* SPDX-License-Identifier: Apache-2.0 */
/* Links of sockets that are cut at random bytes (ut_resume.h), and ends by hand. */
#include "ut_loopback.h"
#include "ut_resume.h"
#include "xport_resume_conn.h"

/* Every long payload goes over the stripes, for as long as they live. */
static void
stripes_add(struct xport_conn *conn, const int fds[STRIPES])
{
    struct xport_stripes *stripes;

    assert_int_equal(xport_stripes_add(conn, fds, NULL, STRIPES, 0, NULL), 0);
    assert_int_equal(xport_stripes_use(conn, 0), 0);
    stripes = atomic_load(&conn->blocks->stripes);
    stripes->use = true;
    stripes->until = UINT64_MAX;
}

static void
talk_over(uint32_t seed, uint32_t most, uint32_t frames, enum xport_pack pack,
          bool blocks, bool confirms, unsigned n_stripes)
{
    struct xport_resume_link link[2];
    int stripes[2][STRIPES];

    meeting_begin(seed, most, n_stripes);
    link_make(link, stripes, n_stripes);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(xport_resume_new(link[i].fd, link[i].ack_fd, FRAME_MAX,
                                          &owner[i], &meeting.conn[i], NULL),
                         0);
        if (blocks)
            assert_int_equal(xport_blocks_start(meeting.conn[i], pack, NULL), 0);
        if (meeting.sources)
            xport_blocks_peer_rereads(meeting.conn[i]);
        if (n_stripes)
            stripes_add(meeting.conn[i], stripes[i]);
    }
    talk_through(seed, frames, confirms);
    print_message("seed %u: %u cuts, %llu bytes sent again\n", seed, meeting.cuts,
                  (unsigned long long)meeting.replayed);
}

static void
talk(uint32_t seed, uint32_t most, uint32_t frames, enum xport_pack pack, bool blocks,
     bool confirms)
{
    talk_over(seed, most, frames, pack, blocks, confirms, 0);
    assert_true(meeting.cuts > 0);
}

/* ---- one end by hand ---------------------------------------------------------------
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

/* What the peer claims to have of a stream of 16 bytes. */
static uint64_t claimed;
static uint64_t claimed_striped; /* to have sent, of a connection without stripes */

static int
liar_comes(struct xport_conn *conn, const struct xport_resume_have *have,
           struct xport_resume_link *ret)
{
    int pair[2];

    (void)conn, (void)have;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    *ret = (struct xport_resume_link){.number = 9,
                                      .fd = pair[0],
                                      .ack_fd = -1,
                                      .peer = {claimed, 0, claimed_striped}};
    return asked++ ? -ETIME : 0;
}

static const struct xport_resume_owner alone[2] = {
    {.reconnect = nobody_comes}, {.reconnect = nobody_comes, .knocks = never_knocks}};

static struct xport_conn *
end_new(const struct xport_resume_owner *of, int fd)
{
    struct xport_conn *conn;

    asked = 0;
    assert_int_equal(xport_resume_new(fd, -1, FRAME_MAX, of, &conn, NULL), 0);
    return conn;
}

static void
send_frame(struct xport_conn *conn)
{
    struct message *m = xport_reserve(conn, sizeof(*m));

    assert_non_null(m);
    *m = (struct message){.size = sizeof(*m)};
    xport_commit(conn, sizeof(*m));
}

/* Frames that wait for a flush leave with it; who is connected to asks for no link. */
static void
test_goodbye_ends_the_other_end(void **state)
{
    struct xport_conn *near, *far;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&alone[0], pair[0]);
    far = end_new(&alone[1], pair[1]);
    send_frame(near);
    xport_resume_goodbye(near);
    xport_free(near);
    assert_int_equal(xport_recv(far, &frame, &size, GP_FOREVER), 0);
    assert_int_equal(size, sizeof(struct message));
    assert_int_equal(xport_recv(far, &frame, &size, GP_FOREVER), -ECONNRESET);
    assert_int_equal(asked, 0);
    xport_free(far);
}

/* A sender there does not wait for a new link before somebody has read to the end. */
static void
test_goodbye_is_read_although_a_reply_cannot_be_sent(void **state)
{
    struct xport_conn *near, *far;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&alone[0], pair[0]);
    far = end_new(&alone[1], pair[1]);
    xport_resume_goodbye(near);
    xport_free(near);
    for (int i = 0; i < 3; i++) {
        send_frame(far);
        assert_int_equal(xport_flush(far), 0);
    }
    send_frame(far);
    assert_int_equal(xport_flush_now(far), 0);
    assert_int_equal(xport_recv(far, &frame, &size, GP_FOREVER), -ECONNRESET);
    assert_int_equal(asked, 0);
    xport_free(far);
}

static void
test_server_cannot_say_goodbye(void **state)
{
    static const uint64_t last = XPORT_LAST_FRAME;
    struct xport_conn *near;
    const void *frame;
    uint32_t size;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&alone[0], pair[0]);
    assert_int_equal(write(pair[1], &last, sizeof(last)), sizeof(last));
    assert_int_equal(xport_recv(near, &frame, &size, GP_FOREVER), -EPROTO);
    xport_free(near);
    close(pair[1]);
}

/* What an end that has sent 16 bytes makes of the claim. */
static int
end_hears(bool stripes)
{
    static const struct xport_resume_owner client = {.reconnect = liar_comes};
    struct xport_conn *near;
    const void *frame;
    uint32_t size;
    int pair[2], r;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    near = end_new(&client, pair[0]);
    if (stripes) {
        int stripe[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stripe), 0);
        assert_int_equal(xport_blocks_start(near, XPORT_PACK_NEVER, NULL), 0);
        assert_int_equal(xport_stripes_add(near, stripe, NULL, 2, 0, NULL), 0);
    }
    send_frame(near);
    assert_int_equal(xport_flush(near), 0);
    close(pair[1]);
    r = xport_recv(near, &frame, &size, GP_FOREVER);
    xport_free(near);
    return r;
}

/* Less than was acknowledged, or more than was sent, is another stream. */
static void
test_offset_outside_of_the_journal_ends_the_connection(void **state)
{
    (void)state;
    claimed = 16;
    assert_int_equal(end_hears(false), -ETIME);
    claimed = 17;
    assert_int_equal(end_hears(false), -EPROTO);
}

/* A peer makes no end keep more than the window. */
static void
test_claim_of_striped_bytes_is_bounded(void **state)
{
    (void)state;
    claimed = 16;
    claimed_striped = 1;
    assert_int_equal(end_hears(false), -EPROTO);
    claimed_striped = 32u << 20;
    assert_int_equal(end_hears(true), -ETIME);
    claimed_striped++;
    assert_int_equal(end_hears(true), -EPROTO);
    claimed_striped = 0;
}

static int looked; /* for acknowledgements */

static int
no_acks(struct xport_conn *conn, struct xport_resume_link *ret)
{
    (void)conn, (void)ret;
    looked++;
    return -EAGAIN;
}

/* Takes what is sent, as a peer's kernel does. */
static void *
drain_main(void *arg)
{
    static uint8_t sink[65536];
    const int *fd = arg;

    while (read(*fd, sink, sizeof(sink)) > 0)
        ;
    return NULL;
}

/* In the middle of a payload the peer acknowledges once in a while: a part whose
 * acknowledgement is not due is copied, however short the round trip is. */
static void
test_acknowledgement_that_is_not_due_is_not_waited_for(void **state)
{
    static const struct xport_resume_owner worker = {
        .reconnect = nobody_comes, .ack_link = no_acks, .knocks = never_knocks};
    static uint8_t bytes[600u << 10];
    static const size_t len[2] = {sizeof(bytes), 72u << 10};
    struct xport_conn *conn;
    pthread_t thread;
    uint64_t ticket[2];
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pthread_create(&thread, NULL, drain_main, &pair[1]);
    conn = end_new(&worker, pair[0]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(xport_send_bulk_start(conn, bytes, len[i], &ticket[i]), 0);
    looked = 0;
    assert_int_equal(xport_send_bulk_wait(conn, ticket[0]), 0);
    assert_int_equal(looked, 1);
    xport_free(conn);
    pthread_join(thread, NULL);
    close(pair[1]);
}

/* Two ends and their socket for acknowledgements, without a relay; over TCP if @tcp,
 * where they find each other near. */
static void
pair_new(uint32_t frame_max, bool tcp, struct xport_conn *ret[2])
{
    int stream[2], acks[2];

    if (tcp)
        loopback(stream);
    else
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, acks), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            xport_resume_new(stream[i], acks[i], frame_max, &alone[i], &ret[i], NULL),
            0);
}

/* ---- a payload with a source -------------------------------------------------------
 */

/* More than is acknowledged at a time, and a little. */
#define SHORT_TAIL (XPORT_ACK_SELDOM + XPORT_BLOCK_PACKED + XPORT_SOURCE_TAIL)

static uint8_t tail_from[SHORT_TAIL], tail_to[SHORT_TAIL];

static int64_t
tail_reread(struct xport_source *source, uint64_t at, uint64_t len, const uint8_t **ret)
{
    (void)source;
    *ret = tail_from + at;
    return (int64_t)len;
}

static void *
tail_receive(void *conn)
{
    assert_int_equal(xport_recv_bulk(conn, tail_to, SHORT_TAIL), 0);
    return NULL;
}

/* What comes behind the bytes that are not kept is so short once it is packed that it
 * causes no acknowledgement, and nothing says that the payload is here as a whole. */
static void
test_bytes_of_a_source_are_acknowledged_whatever_follows(void **state)
{
    struct xport_source source = {tail_reread};
    struct xport_conn *conn[2];
    uint32_t noise = 1;
    pthread_t thread;
    uint64_t ticket;

    (void)state;
    if (!xport_pack_usable())
        skip();
    for (uint32_t i = 0; i < SHORT_TAIL - XPORT_SOURCE_TAIL; i++)
        tail_from[i] = (uint8_t)draw(&noise, 256);
    pair_new(FRAME_MAX, false, conn);
    for (int i = 0; i < 2; i++)
        assert_int_equal(xport_blocks_start(conn[i], XPORT_PACK_ALWAYS, NULL), 0);
    xport_blocks_peer_rereads(conn[1]);
    pthread_create(&thread, NULL, tail_receive, conn[0]);
    assert_true(xport_bulk_from_source(conn[1], SHORT_TAIL, &source));
    assert_int_equal(xport_send_bulk_start(conn[1], tail_from, SHORT_TAIL, &ticket), 0);
    assert_int_equal(xport_bulk_source_done(conn[1]), 0);
    assert_int_equal(xport_send_bulk_wait(conn[1], ticket), 0);
    pthread_join(thread, NULL);
    assert_memory_equal(tail_from, tail_to, SHORT_TAIL);
    for (int i = 0; i < 2; i++)
        xport_free(conn[i]);
}

#define PIECE (64u << 10)
#define PIECES 96u
#define EARLY 64u

static uint8_t pieces_from[PIECE * PIECES], pieces_to[PIECE * PIECES];

static int64_t
pieces_reread(struct xport_source *source, uint64_t at, uint64_t len,
              const uint8_t **ret)
{
    (void)source;
    *ret = pieces_from + at;
    return (int64_t)len;
}

static void *
pieces_receive(void *conn)
{
    assert_int_equal(xport_recv_bulk(conn, pieces_to, sizeof(pieces_to)), 0);
    return NULL;
}

/* The first piece is a little shorter, as a worker's are, so the part that is not kept
 * would end within a piece if it were counted from the end. */
static void
test_no_piece_of_a_source_is_sent_in_two_writes(void **state)
{
    struct xport_source source = {pieces_reread};
    uint64_t at = 0, ticket, writes;
    struct xport_conn *conn[2];
    pthread_t thread;
    uint32_t noise = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(pieces_from); i++)
        pieces_from[i] = (uint8_t)draw(&noise, 256);
    pair_new(FRAME_MAX, false, conn);
    for (int i = 0; i < 2; i++)
        assert_int_equal(xport_blocks_start(conn[i], XPORT_PACK_NEVER, NULL), 0);
    xport_blocks_peer_rereads(conn[1]);
    pthread_create(&thread, NULL, pieces_receive, conn[0]);
    assert_true(xport_bulk_from_source(conn[1], sizeof(pieces_from), &source));
    for (unsigned i = 0; i < PIECES; i++) {
        uint64_t until = (uint64_t)(i + 1) * PIECE;

        if (i + 1 < PIECES)
            until -= EARLY;
        writes = conn[1]->stats.tx_writes;
        assert_int_equal(
            xport_send_bulk_start(conn[1], pieces_from + at, until - at, &ticket), 0);
        assert_int_equal(conn[1]->stats.tx_writes, writes + 1);
        at = until;
    }
    assert_int_equal(xport_bulk_source_done(conn[1]), 0);
    assert_int_equal(xport_send_bulk_wait(conn[1], ticket), 0);
    pthread_join(thread, NULL);
    assert_memory_equal(pieces_from, pieces_to, sizeof(pieces_from));
    for (int i = 0; i < 2; i++)
        xport_free(conn[i]);
}

/* ---- an end that only reads --------------------------------------------------------
 */

static void *
reader_main(void *arg)
{
    struct xport_conn *conn = arg;
    const void *frame;
    uint32_t size;

    while (xport_recv(conn, &frame, &size, GP_FOREVER) == 0)
        ;
    return NULL;
}

/* @total bytes in frames of @size bytes, @each before a flush. */
static void
send_frames(struct xport_conn *conn, uint64_t total, uint32_t size, unsigned each)
{
    for (uint64_t sent = 0; sent < total; sent += each * size) {
        for (unsigned i = 0; i < each; i++) {
            struct message *m = xport_reserve(conn, size);

            assert_non_null(m);
            *m = (struct message){.size = size};
            xport_commit(conn, size);
        }
        assert_int_equal(xport_flush(conn), 0);
    }
}

/* One end sends 8 MiB, and nothing comes back but acknowledgements: it must never wait
 * for one that is not due. */
static void
flow_over(bool tcp, int sender, uint32_t size, unsigned each, uint32_t frame_max)
{
    struct xport_conn *conn[2];
    pthread_t reader;

    pair_new(frame_max, tcp, conn);
    xport_confirm(conn[sender], 1); /* as after a first reply */
    assert_int_equal(pthread_create(&reader, NULL, reader_main, conn[!sender]), 0);
    send_frames(conn[sender], 8u << 20, size, each);
    xport_abort(conn[!sender]);
    pthread_join(reader, NULL);
    xport_free(conn[0]);
    xport_free(conn[1]);
}

static void
flow(int sender, uint32_t size, unsigned each, uint32_t frame_max)
{
    flow_over(false, sender, size, each, frame_max);
    flow_over(true, sender, size, each, frame_max);
}

/* A client near its worker begins with a small journal, and waits for acknowledgements
 * rather than to use more memory; but not for long: this peer never sends one. */
static void
test_near_sender_does_not_wait_long_for_room(void **state)
{
    struct xport_conn *conn[2];
    struct xport_journal *journal;
    pthread_t reader;
    int fd[2];

    (void)state;
    alarm(PATIENCE_S);
    loopback(fd);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            xport_resume_new(fd[i], -1, FRAME_MAX, &alone[i], &conn[i], NULL), 0);
    journal = &xport_resume_of(conn[0])->journal;
    assert_int_equal(journal->blocks.wanted, XPORT_JOURNAL_BLOCKS_NEAR);
    assert_int_equal(pthread_create(&reader, NULL, reader_main, conn[1]), 0);
    send_frames(conn[0], 1u << 19, 1024, 32);
    assert_in_range(journal->blocks.made, 1, XPORT_JOURNAL_BLOCKS_NEAR);
    send_frames(conn[0], 2u << 20, 1024, 32);
    assert_true(journal->blocks.made > XPORT_JOURNAL_BLOCKS_NEAR);
    xport_abort(conn[1]);
    pthread_join(reader, NULL);
    xport_free(conn[0]);
    xport_free(conn[1]);
    alarm(0);
}

static void
test_sender_of_little_at_a_time_never_waits_for_ever(void **state)
{
    (void)state;
    alarm(PATIENCE_S);
    for (int sender = 0; sender < 2; sender++) {
        flow(sender, 1040, 4, FRAME_MAX);
        flow(sender, 48, 100, FRAME_MAX);
        flow(sender, 18440, 1, 128u << 10);
    }
    alarm(0);
}

static void
test_sender_of_large_frames_never_waits_for_ever(void **state)
{
    (void)state;
    alarm(PATIENCE_S);
    for (int sender = 0; sender < 2; sender++) {
        flow(sender, 40u << 10, 1, 128u << 10);
        flow(sender, 65544, 1, 128u << 10);
        flow(sender, 128u << 10, 1, 128u << 10);
    }
    alarm(0);
}

/* A frame and a payload from @conn[1], which is lent until the ticket is waited for. */
static uint64_t
payload_down(struct xport_conn *const conn[2], const uint8_t *bytes, uint32_t len,
             uint8_t *to)
{
    struct message *m = xport_reserve(conn[1], sizeof(*m));
    const void *frame;
    uint64_t ticket;
    uint32_t size;

    assert_non_null(m);
    *m = (struct message){.size = sizeof(*m), .payload = len};
    xport_commit(conn[1], sizeof(*m));
    assert_int_equal(xport_send_bulk_start(conn[1], bytes, len, &ticket), 0);
    assert_int_equal(xport_recv(conn[0], &frame, &size, GP_FOREVER), 0);
    assert_int_equal(xport_recv_bulk(conn[0], to, len), 0);
    xport_acknowledge(conn[0]);
    assert_memory_equal(to, bytes, len);
    return ticket;
}

static bool
acknowledged_by_socket(struct xport_conn *conn)
{
    uint8_t byte;

    return recv(xport_acks_fd(&xport_resume_of(conn)->acks), &byte, 1,
                MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* Short payloads of which a frame says that they have come are neither copied nor
 * acknowledged otherwise; those of which nobody says so are both. */
static void
test_what_a_frame_says_is_heard(void **state)
{
    enum { LEN = 100000 };
    static uint8_t bytes[LEN], to[LEN];
    struct xport_resume_conn *worker;
    struct xport_conn *conn[2];
    uint64_t received, said = 0;

    (void)state;
    alarm(PATIENCE_S);
    pair_new(FRAME_MAX, false, conn);
    worker = xport_resume_of(conn[1]);
    for (unsigned i = 0; i < 50; i++) {
        uint64_t ticket;

        memset(bytes, (int)i, LEN);
        ticket = payload_down(conn, bytes, LEN, to);
        assert_true(xport_unheard(conn[0], &received) >= LEN);
        assert_true(received >= said + LEN);
        said = received;
        xport_confirm(conn[1], said); /* the frame has come */
        assert_int_equal(xport_send_bulk_wait(conn[1], ticket), 0);
        xport_heard(conn[0], said); /* and been answered */
        assert_int_equal(worker->journal.acked, worker->journal.end);
        assert_int_equal(worker->journal.copies.block, -1);
    }
    assert_false(acknowledged_by_socket(conn[1]));
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(
            xport_send_bulk_wait(conn[1], payload_down(conn, bytes, LEN, to)), 0);
    assert_true(acknowledged_by_socket(conn[1]));
    assert_true(worker->journal.copies.block >= 0);
    xport_confirm(conn[1], UINT64_MAX); /* more than there is: all of it */
    assert_int_equal(xport_send_bulk_wait(conn[1], payload_down(conn, bytes, LEN, to)),
                     0);
    assert_int_equal(worker->journal.acked, worker->journal.end);
    xport_free(conn[0]);
    xport_free(conn[1]);
    alarm(0);
}

/* The reply to the frame that says it is no reason to acknowledge the same once more.
 */
static void
test_what_a_frame_says_is_not_acknowledged_at_its_reply(void **state)
{
    enum { LEN = 110000 }; /* five: XPORT_ACK_REPLIES and less than _SHORT */
    static uint8_t bytes[LEN], to[LEN];
    struct xport_conn *conn[2];
    uint64_t received;

    (void)state;
    alarm(PATIENCE_S);
    pair_new(FRAME_MAX, false, conn);
    for (unsigned i = 1; i <= 6; i++) {
        assert_int_equal(
            xport_send_bulk_wait(conn[1], payload_down(conn, bytes, LEN, to)), 0);
        assert_int_equal(acknowledged_by_socket(conn[1]), i == 6);
        if (i == 3) {
            assert_true(xport_unheard(conn[0], &received) >= 3 * LEN);
            xport_said(conn[0], received);
        }
    }
    xport_free(conn[0]);
    xport_free(conn[1]);
    alarm(0);
}

/* A frame of @size bytes, and a payload of @len, from a client. */
struct call {
    struct xport_conn *conn;
    uint32_t size, len;
};

static void *
call_send(void *arg)
{
    static uint8_t bytes[1u << 20];
    const struct call *call = arg;
    struct message *m = xport_reserve(call->conn, call->size);
    uint64_t ticket;

    *m = (struct message){.size = call->size, .payload = call->len};
    xport_commit(call->conn, call->size);
    assert_int_equal(xport_flush(call->conn), 0);
    if (call->len)
        assert_int_equal(xport_send_bulk_start(call->conn, bytes, call->len, &ticket),
                         0);
    return NULL;
}

static void
call_receive(struct xport_conn *worker, uint32_t len, bool answered)
{
    static uint8_t to[1u << 20];
    const void *frame;
    uint32_t size;

    assert_int_equal(xport_recv(worker, &frame, &size, GP_FOREVER), 0);
    if (answered)
        xport_answers(worker);
    if (len) {
        assert_int_equal(xport_recv_bulk(worker, to, len), 0);
        xport_acknowledge(worker);
    }
}

/* Has the sender heard of anything over the socket by then? */
static bool
call_is_acknowledged(struct xport_conn *const conn[2], uint32_t size, uint32_t len,
                     bool answered)
{
    struct call call = {conn[0], size, len};
    pthread_t thread;

    pthread_create(&thread, NULL, call_send, &call);
    call_receive(conn[1], len, answered);
    pthread_join(thread, NULL);
    if (answered)
        xport_confirm(conn[0], xport_sent(conn[0]));
    return acknowledged_by_socket(conn[0]);
}

/* A client hears with the answer that its payload has come; of what is not answered, as
 * often as ever, and of all when the other end is quiet. */
static void
test_what_is_answered_is_not_acknowledged(void **state)
{
    struct xport_conn *conn[2];

    (void)state;
    alarm(PATIENCE_S);
    pair_new(128u << 10, false, conn);
    for (unsigned i = 0; i < 20; i++)
        assert_false(
            call_is_acknowledged(conn, sizeof(struct message), 1u << 20, true));
    for (unsigned i = 1; i < 8; i++) /* XPORT_ACK_CALLS */
        assert_int_equal(call_is_acknowledged(conn, 64u << 10, 0, false), i >= 6);
    xport_free(conn[0]);
    xport_free(conn[1]);
    pair_new(128u << 10, false, conn);
    assert_false(call_is_acknowledged(conn, sizeof(struct message), 1u << 20, true));
    for (int looks = 0; looks < 3; looks++)
        xport_look(conn[1]);
    assert_true(acknowledged_by_socket(conn[0]));
    xport_free(conn[0]);
    xport_free(conn[1]);
    pair_new(128u << 10, false, conn);
    assert_true(call_is_acknowledged(conn, sizeof(struct message), 1u << 20, false));
    xport_free(conn[0]);
    xport_free(conn[1]);
    alarm(0);
}

/* A look, which the worker makes several times a second, acknowledges what nobody
 * expects any more of. */
static void
test_quiet_end_acknowledges_when_it_looks(void **state)
{
    struct xport_conn *conn[2];
    const void *frame;
    uint32_t size;

    (void)state;
    pair_new(128u << 10, false, conn);
    for (int i = 0; i < 3; i++) {
        struct message *m = xport_reserve(conn[0], 64u << 10);

        assert_non_null(m);
        *m = (struct message){.size = 64u << 10};
        xport_commit(conn[0], m->size);
        assert_int_equal(xport_flush(conn[0]), 0);
        assert_int_equal(xport_recv(conn[1], &frame, &size, GP_FOREVER), 0);
    }
    for (int looks = 0; looks < 3; looks++) {
        struct pollfd p = {.fd = xport_resume_ack_fd(conn[0]), .events = POLLIN};

        assert_int_equal(poll(&p, 1, 0), looks == 2);
        xport_look(conn[1]);
    }
    xport_free(conn[0]);
    xport_free(conn[1]);
}

static void
test_cut_within_every_frame(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        talk(first_seed() + i, 20000, 300, 0, false, false);
}

static void
test_cut_rarely_with_full_journals(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        talk(first_seed() + 100 + i, 8u << 20, 1500, 0, false, false);
}

/* Messages confirm what came the other way, as replies do: room is used again sooner.
 */
static void
test_cut_where_messages_confirm(void **state)
{
    (void)state;
    talk(first_seed() + 400, 20000, 100, 0, false, true);
    talk(first_seed() + 401, 8u << 20, 500, 0, false, true);
}

static void
test_cut_within_blocks(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        talk(first_seed() + 200 + i, 1u << 20, 400, XPORT_PACK_NEVER, true, false);
    if (xport_pack_usable())
        talk(first_seed() + 300, 1u << 18, 300, XPORT_PACK_ALWAYS, true, false);
}

/* The stripes end with their link and are made again for the next one, beside a
 * conversation that goes on; some cuts come in the middle of that. */
static void
test_cut_within_stripes(void **state)
{
    uint64_t cuts = 0, again;

    __atomic_store_n(&meeting.striped_again, 0, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < 30; i++) {
        talk_over(first_seed() + 500 + i, i % 2 ? 6u << 20 : 1u << 20, 40,
                  XPORT_PACK_NEVER, true, false, STRIPES);
        cuts += meeting.cuts;
    }
    assert_true(cuts >= 30);
    again = __atomic_load_n(&meeting.striped_again, __ATOMIC_SEQ_CST);
    print_message("%llu bytes over stripes of later links\n",
                  (unsigned long long)again);
    assert_true(again > 8u << 20);
}

static void
talk_of_sources(uint32_t seed, uint32_t most, unsigned n_stripes)
{
    talk_over(seed, most, 60, XPORT_PACK_NEVER, true, false, n_stripes);
    assert_true(meeting.cuts > 0);
    print_message("read again %llu times\n", (unsigned long long)meeting.reread);
}

/* Neither end keeps the long payloads: what a link took along is read again, while the
 * memory that it was sent from is overwritten.  Beside stripes some of it is kept.  Of
 * a conversation with few cuts none may come within such a payload: then there is
 * another.
 */
static void
test_cut_within_payloads_with_a_source(void **state)
{
    (void)state;
    meeting.sources = true;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t tries = 0;

        do
            talk_of_sources(first_seed() + 600 + i + 20 * tries,
                            i % 2 ? 3u << 20 : 12u << 20, 0);
        while (meeting.reread == 0 && ++tries < 5);
        assert_true(meeting.reread > 0);
    }
    for (uint32_t i = 4; i < 6; i++)
        talk_of_sources(first_seed() + 600 + i, i % 2 ? 3u << 20 : 12u << 20, STRIPES);
    if (xport_pack_usable())
        talk(first_seed() + 610, 1u << 20, 40, XPORT_PACK_AUTO, true, false);
    meeting.sources = false;
}

/* They are of one link, at both ends, and of as many as there were. */
static void
test_stripes_are_those_of_the_link_in_use(void **state)
{
    static const struct xport_resume_owner client = {.reconnect = liar_comes};
    int pair[2], stripe[2], again[2];
    struct xport_conn *near;
    const void *frame;
    uint32_t size;

    (void)state;
    claimed = 16;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stripe), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, again), 0);
    near = end_new(&client, pair[0]);
    assert_int_equal(xport_blocks_start(near, XPORT_PACK_NEVER, NULL), 0);
    assert_int_equal(xport_stripes_add(near, stripe, NULL, 2, 1, NULL), -ESTALE);
    assert_int_equal(xport_stripes_add(near, stripe, NULL, 2, 0, NULL), 0);
    assert_int_equal(xport_stripes_add(near, again, NULL, 2, 0, NULL), -EALREADY);
    assert_true(xport_stripes_here(near));
    send_frame(near);
    assert_int_equal(xport_flush(near), 0);
    close(pair[1]);
    assert_int_equal(xport_recv(near, &frame, &size, gp_now_ns() + GP_NS_PER_S),
                     -ETIME);
    assert_int_equal(xport_stripes_link(near), 9);
    assert_false(xport_stripes_here(near));
    assert_int_equal(xport_stripes_add(near, again, NULL, 2, 0, NULL), -ESTALE);
    assert_int_equal(xport_stripes_add(near, again, NULL, 1, 9, NULL), -EINVAL);
    assert_int_equal(xport_stripes_use(near, 0), -ESTALE);
    assert_int_equal(xport_stripes_add(near, again, NULL, 2, 9, NULL), 0);
    assert_true(xport_stripes_here(near));
    assert_int_equal(xport_stripes_use(near, 9), 0);
    xport_free(near);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_within_every_frame),
        cmocka_unit_test(test_cut_rarely_with_full_journals),
        cmocka_unit_test(test_cut_where_messages_confirm),
        cmocka_unit_test(test_cut_within_blocks),
        cmocka_unit_test(test_cut_within_stripes),
        cmocka_unit_test(test_cut_within_payloads_with_a_source),
        cmocka_unit_test(test_stripes_are_those_of_the_link_in_use),
        cmocka_unit_test(test_goodbye_ends_the_other_end),
        cmocka_unit_test(test_goodbye_is_read_although_a_reply_cannot_be_sent),
        cmocka_unit_test(test_server_cannot_say_goodbye),
        cmocka_unit_test(test_acknowledgement_that_is_not_due_is_not_waited_for),
        cmocka_unit_test(test_bytes_of_a_source_are_acknowledged_whatever_follows),
        cmocka_unit_test(test_no_piece_of_a_source_is_sent_in_two_writes),
        cmocka_unit_test(test_offset_outside_of_the_journal_ends_the_connection),
        cmocka_unit_test(test_claim_of_striped_bytes_is_bounded),
        cmocka_unit_test(test_near_sender_does_not_wait_long_for_room),
        cmocka_unit_test(test_sender_of_little_at_a_time_never_waits_for_ever),
        cmocka_unit_test(test_sender_of_large_frames_never_waits_for_ever),
        cmocka_unit_test(test_what_a_frame_says_is_heard),
        cmocka_unit_test(test_what_a_frame_says_is_not_acknowledged_at_its_reply),
        cmocka_unit_test(test_what_is_answered_is_not_acknowledged),
        cmocka_unit_test(test_quiet_end_acknowledges_when_it_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
