/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short pieces of the stream without a completion: eager messages.
 *
 * A reader that looks again and again finds a piece in its memory sooner than the
 * completion that tells of it, and a plain write costs both sides no receive.  Such a
 * piece says itself how long it is and whether all of it is there: in front its length
 * and a mark of its place, behind it a sum over both and all its bytes.  So it does not
 * matter in which order an adapter places the bytes of a write, which nobody promises.
 *
 * Nobody is woken by an eager message, so a reader says when it looks
 * (rdma_credit.awake), and before it sleeps it takes that back and then READs how far
 * the writer's eager messages go. The writer publishes an eager message's end first and
 * looks at the word after that: either it sees that the reader is going to sleep, and
 * sends with a completion, or the reader sees the eager message and does not sleep.
 *
 * iWARP has none: there a note is a SEND of its own, which need not be complete when
 * the write in front of it can be seen.
 */
#include "xport_rdma.h"

#include "gp_time.h"

#include <string.h>

/* Frames that came without a sleep until eager messages are asked for: that is a
 * message, and two more when the next sleep comes. */
#define AWAKE_AFTER 16

/* Each step is one to one in either argument: no single difference is lost. */
static inline uint64_t
mix(uint64_t sum, uint64_t word)
{
    return (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

/* --- writer --- */

GP_HOT int
rdma_eager_put(struct rdma_conn *rdma, const uint8_t *data, size_t len)
{
    const struct rdma_credit *credit = &rdma->region->credit;
    uint64_t at = GP_ALIGN_UP(rdma->head, 8), end = at + len + RDMA_EAGER_EXTRA;
    uint64_t message[(RDMA_EAGER_MAX + RDMA_EAGER_EXTRA) / 8], *to = message;
    uint64_t head = RDMA_EAGER_HEAD(at, len), sum = mix(at, head), word;
    size_t place = at % RDMA_RING_SIZE;
    int r;

    if (len > rdma->eager_max || len % 8 ||
        !__atomic_load_n(&credit->awake, __ATOMIC_RELAXED))
        return -EAGAIN;
    if (place + len + RDMA_EAGER_EXTRA > RDMA_RING_SIZE ||
        end - __atomic_load_n(&credit->bytes, __ATOMIC_ACQUIRE) > RDMA_RING_SIZE)
        return -EAGAIN;
    __atomic_exchange_n(&rdma->region->sent, end, __ATOMIC_SEQ_CST);
    if (unlikely(!__atomic_load_n(&credit->awake, __ATOMIC_SEQ_CST))) {
        __atomic_store_n(&rdma->region->sent, rdma->eager_end, __ATOMIC_RELEASE);
        return -EAGAIN;
    }
    *to++ = head;
    for (size_t i = 0; i < len; i += sizeof(word)) {
        memcpy(&word, data + i, sizeof(word));
        sum = mix(sum, word);
        *to++ = word;
    }
    *to = sum;
    r = rdma_write_plain(rdma, place, message, len + RDMA_EAGER_EXTRA);
    rdma->head = rdma->eager_end = end;
    rdma->stream.conn.stats.tx_bytes += len;
    return r;
}

/* --- reader --- */

GP_HOT static size_t
take_spilled(struct rdma_conn *rdma, uint8_t *buf, size_t len)
{
    size_t n = gp_min(len, (size_t)(rdma->spill_end - rdma->spill_at));

    memcpy(buf, rdma->spill + rdma->spill_at, n);
    rdma->spill_at += (unsigned)n;
    return n;
}

/* What the peer changes later changes nothing: each word is read once, and what counts
 * is the copy.  Into @buf if it is as long as the eager message, else into @small; 0:
 * there is none, or not yet all of it. */
GP_HOT static inline size_t
eager_copy(const struct rdma_conn *rdma, uint64_t at, uint8_t *buf, size_t len,
           uint8_t small[RDMA_EAGER_MAX])
{
    size_t place = at % RDMA_RING_SIZE;
    const uint64_t *from = (const uint64_t *)(const void *)(rdma->region->ring + place);
    uint64_t head = __atomic_load_n(from, __ATOMIC_ACQUIRE), sum = mix(at, head), word;
    size_t n = (uint32_t)head;
    uint8_t *to = likely(n <= len) ? buf : small;

    if (head != RDMA_EAGER_HEAD(at, n) || n > rdma->eager_max || n % 8 ||
        n + RDMA_EAGER_EXTRA > RDMA_RING_SIZE - place)
        return 0;
    for (size_t i = 0; i < n; i += sizeof(word)) {
        word = __atomic_load_n(++from, __ATOMIC_RELAXED);
        memcpy(to + i, &word, sizeof(word));
        sum = mix(sum, word);
    }
    return likely(sum == __atomic_load_n(++from, __ATOMIC_RELAXED)) ? n : 0;
}

GP_HOT size_t
rdma_eager_take(struct rdma_conn *rdma, uint8_t *buf, size_t len)
{
    uint64_t at = GP_ALIGN_UP(rdma->tail, 8);
    size_t n;

    if (unlikely(rdma->spill_at != rdma->spill_end))
        return take_spilled(rdma, buf, len);
    n = eager_copy(rdma, at, buf, len, rdma->spill);
    if (!n)
        return 0;
    rdma->tail = at + n + RDMA_EAGER_EXTRA;
    rdma->received = gp_max(rdma->received, rdma->tail);
    if (likely(n <= len))
        return n;
    rdma->spill_at = 0;
    rdma->spill_end = (unsigned)n;
    return take_spilled(rdma, buf, len);
}

bool
rdma_eager_whole(const struct rdma_conn *rdma)
{
    uint8_t copy[RDMA_EAGER_MAX];

    return eager_copy(rdma, GP_ALIGN_UP(rdma->tail, 8), NULL, 0, copy) > 0;
}

int
rdma_eager_awake(struct rdma_conn *rdma)
{
    uint64_t slept = rdma->stream.conn.stats.rx_slept;

    if (!rdma->eager_max)
        return 0;
    if (slept != rdma->slept) {
        rdma->slept = slept;
        rdma->unslept = 0;
    }
    if (++rdma->unslept < AWAKE_AFTER)
        return 0;
    rdma->region->out.awake = 1;
    rdma->noted = false;
    return rdma_credit_write(rdma);
}

int
rdma_eager_asleep(struct rdma_conn *rdma)
{
    uint64_t number, *sent = &rdma->region->echo[RDMA_ECHO_SENT];
    int r = 0;

    if (rdma->noted || !rdma->eager_max)
        return 0;
    if (rdma->region->out.awake) {
        rdma->region->out.awake = 0;
        rdma->unslept = 0;
        r = rdma_credit_write(rdma);
    }
    if (!r)
        r = rdma_echo(rdma, RDMA_ECHO_SENT, offsetof(struct rdma_region, sent),
                      &number);
    if (!r)
        r = rdma_wait_counter(rdma, &rdma->reads_done, number);
    if (r < 0)
        return r;
    rdma->noted = __atomic_load_n(sent, __ATOMIC_ACQUIRE) <= rdma->tail;
    if (rdma->noted)
        return 0;
    /* One is here or in flight, and its sender may end before. */
    r = rdma_liveness(rdma);
    return r < 0 ? r : 1;
}
