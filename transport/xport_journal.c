/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_journal.h"

#include "gp_copy.h"

#include <errno.h>
#include <string.h>

/* What is copied to make one part of many. */
#define SHORT_PART 4096u

/* ---- blocks -----------------------------------------------------------------------
 */

static struct xport_journal_blocks *
blocks_of(struct xport_journal *j, int block)
{
    return (unsigned)block >= j->large.first ? &j->large : &j->blocks;
}

static void
block_drop(struct xport_journal *j, int block)
{
    struct xport_journal_blocks *blocks;

    if (block < 0 || --j->refs[block] > 0)
        return;
    blocks = blocks_of(j, block);
    blocks->idle[blocks->n_idle++] = (uint8_t)block;
}

/* One without parts: the one that was in use last, else a new one.  Copies of lent
 * bytes may use all blocks: what is copied need not be so much that the peer
 * acknowledges it.
 */
static int
block_get(struct xport_journal *j, size_t n, bool frames)
{
    struct xport_journal_blocks *blocks = n > j->blocks.size ? &j->large : &j->blocks;
    unsigned at = blocks->first + blocks->made;

    if (blocks->n_idle)
        return blocks->idle[--blocks->n_idle];
    if (blocks->made >= (frames ? blocks->wanted : blocks->most))
        return -EAGAIN;
    j->block[at] = xport_buffer_new(blocks->size, XPORT_BUFFER_OUT);
    if (!j->block[at])
        return -ENOMEM;
    blocks->made++;
    return (int)at;
}

static int
cursor_next(struct xport_journal *j, struct xport_journal_cursor *cursor, size_t n)
{
    int old = cursor->block, block = old;

    /* Else nothing in it is needed: start again. */
    if (old < 0 || j->refs[old] > 1 || n > blocks_of(j, old)->size) {
        block = block_get(j, n, cursor == &j->frames);
        if (block < 0)
            return block;
        j->refs[block] = 1;
        block_drop(j, old);
    }
    *cursor = (struct xport_journal_cursor){block, j->block[block]};
    return 0;
}

int
xport_journal_next_block(struct xport_journal *j, size_t n)
{
    return cursor_next(j, &j->frames, n);
}

void
xport_journal_stay_small(struct xport_journal *j)
{
    j->blocks.wanted = gp_min(j->blocks.most, XPORT_JOURNAL_BLOCKS_NEAR);
}

bool
xport_journal_grow(struct xport_journal *j)
{
    bool grows = j->blocks.wanted < j->blocks.most;

    j->blocks.wanted = gp_min(j->blocks.most, 2 * j->blocks.wanted);
    return grows;
}

void
xport_journal_use_all(struct xport_journal *j)
{
    j->blocks.wanted = j->blocks.most;
}

void
xport_journal_rewind(struct xport_journal *j)
{
    if (j->refs[j->frames.block] == 1)
        j->frames.room = j->block[j->frames.block];
}

int
xport_journal_init(struct xport_journal *j, size_t block_size, size_t frame_max)
{
    size_t size = GP_ALIGN_UP(block_size, 64);

    memset(j, 0, sizeof(*j));
    j->blocks.size = size;
    j->blocks.most = (unsigned)gp_min(gp_max(XPORT_JOURNAL_MAX / size, (size_t)4),
                                      (size_t)XPORT_JOURNAL_BLOCKS_MAX);
    xport_journal_use_all(j);
    j->large.size = GP_ALIGN_UP(frame_max, 64);
    j->large.first = XPORT_JOURNAL_BLOCKS_MAX;
    j->large.most = j->large.wanted = XPORT_JOURNAL_LARGE_MAX;
    j->frames.block = j->copies.block = -1;
    return cursor_next(j, &j->frames, 0);
}

void
xport_journal_fini(struct xport_journal *j)
{
    for (unsigned i = 0; i < ARRAY_SIZE(j->block); i++)
        xport_buffer_free(TAKE_PTR(j->block[i]), XPORT_BUFFER_OUT);
}

/* ---- parts ------------------------------------------------------------------------
 */

/* What the peer has already is not kept. */
static void
parts_trim(struct xport_journal *j)
{
    while (j->n) {
        struct xport_journal_part *part = &j->parts[j->first];
        uint64_t done;

        if (part->at >= j->acked)
            return;
        done = gp_min(j->acked - part->at, (uint64_t)part->len);
        part->at += done;
        part->bytes += done;
        part->len -= done;
        if (part->len)
            return;
        block_drop(j, part->block);
        j->first++;
        j->n--;
    }
    j->first = 0;
}

/* Room for one more at the end, whose index is first + n. */
static void
parts_compact(struct xport_journal *j)
{
    if (j->first + j->n < XPORT_JOURNAL_PARTS)
        return;
    memmove(j->parts, j->parts + j->first, j->n * sizeof(j->parts[0]));
    j->first = 0;
}

static void
part_append(struct xport_journal *j, const uint8_t *bytes, size_t len, int block)
{
    parts_compact(j);
    j->parts[j->first + j->n++] =
        (struct xport_journal_part){j->end, bytes, len, block};
    if (block >= 0)
        j->refs[block]++;
    j->end += len;
    if (unlikely(j->acked > j->end - len))
        parts_trim(j);
}

GP_HOT void
xport_journal_sent(struct xport_journal *j, size_t len)
{
    struct xport_journal_part *last = &j->parts[j->first + j->n - (j->n > 0)];

    /* Usually the bytes follow those that were sent before. */
    if (likely(j->n && last->block == j->frames.block &&
               last->bytes + last->len == j->frames.room)) {
        last->len += len;
        j->end += len;
    } else if (len) {
        part_append(j, j->frames.room, len, j->frames.block);
    }
    j->frames.room += len;
}

void
xport_journal_sent_lent(struct xport_journal *j, const void *bytes, size_t len)
{
    if (len)
        part_append(j, bytes, len, XPORT_JOURNAL_LENT);
}

void
xport_journal_sent_card(struct xport_journal *j, uint64_t addr, size_t len)
{
    if (len)
        part_append(j, (const uint8_t *)(uintptr_t)addr, len, XPORT_JOURNAL_CARD);
}

void
xport_journal_sent_source(struct xport_journal *j, uint64_t place, size_t len)
{
    struct xport_journal_part *last = &j->parts[j->first + j->n - (j->n > 0)];

    if (j->n && last->block == XPORT_JOURNAL_SOURCE &&
        (uintptr_t)last->bytes + last->len == place) {
        last->len += len;
        j->end += len;
    } else if (len) {
        part_append(j, (const uint8_t *)(uintptr_t)place, len, XPORT_JOURNAL_SOURCE);
    }
}

bool
xport_journal_has_source(const struct xport_journal *j)
{
    for (unsigned i = j->first; i < j->first + j->n; i++)
        if (j->parts[i].block == XPORT_JOURNAL_SOURCE)
            return true;
    return false;
}

int64_t
xport_journal_give_back(struct xport_journal *j)
{
    uint64_t end = j->end;

    while (j->n && j->parts[j->first + j->n - 1].block == XPORT_JOURNAL_CARD)
        j->end = j->parts[j->first + --j->n].at;
    for (unsigned i = j->first; i < j->first + j->n; i++)
        if (j->parts[i].block == XPORT_JOURNAL_CARD)
            return -EPROTO;
    return (int64_t)(end - j->end);
}

int
xport_journal_ack(struct xport_journal *j, uint64_t upto, uint64_t limit)
{
    if (upto > limit)
        return -EPROTO;
    if (upto > j->acked) {
        j->acked = upto;
        parts_trim(j);
    }
    return 0;
}

/* ---- lent bytes -------------------------------------------------------------------
 */

uint64_t
xport_journal_lent(const struct xport_journal *j, uint64_t until)
{
    uint64_t n = 0;

    for (unsigned i = j->first; i < j->first + j->n; i++)
        if (j->parts[i].block == XPORT_JOURNAL_LENT && j->parts[i].at < until)
            n += j->parts[i].len;
    return n;
}

static size_t
copies_room(const struct xport_journal *j)
{
    return j->copies.block < 0
               ? 0
               : (size_t)(j->block[j->copies.block] + j->blocks.size - j->copies.room);
}

/* Copy the beginning of a lent part; what does not fit stays lent, in a part of its own
 * behind it.  False: no place for that. */
static bool
part_keep(struct xport_journal *j, unsigned i)
{
    struct xport_journal_part *part = &j->parts[i], rest = *part;
    size_t n = gp_min(part->len, copies_room(j));

    if (n < rest.len && j->n == XPORT_JOURNAL_PARTS)
        return false;
    gp_copy(j->copies.room, part->bytes, n);
    part->bytes = j->copies.room;
    part->len = n;
    part->block = j->copies.block;
    j->refs[part->block]++;
    j->copies.room += n;
    if (n == rest.len)
        return true;
    rest.at += n;
    rest.bytes += n;
    rest.len -= n;
    memmove(part + 2, part + 1, (j->n - i - 1) * sizeof(*part));
    part[1] = rest;
    j->n++;
    return true;
}

/* False: no place for another part. */
static bool
parts_keep(struct xport_journal *j, uint64_t until)
{
    memmove(j->parts, j->parts + j->first, j->n * sizeof(j->parts[0]));
    j->first = 0;
    for (unsigned i = 0; i < j->n && j->parts[i].at < until; i++) {
        if (j->parts[i].block != XPORT_JOURNAL_LENT)
            continue;
        if (copies_room(j) == 0 && cursor_next(j, &j->copies, 0) < 0)
            return true;
        if (!part_keep(j, i))
            return false;
    }
    return true;
}

/* Copy a short part behind @before; true if the two are one part then. */
static bool
part_join(struct xport_journal *j, struct xport_journal_part *part,
          struct xport_journal_part *before)
{
    if (copies_room(j) < part->len && cursor_next(j, &j->copies, 0) < 0)
        return false;
    memcpy(j->copies.room, part->bytes, part->len);
    part->bytes = j->copies.room;
    j->copies.room += part->len;
    j->refs[j->copies.block]++;
    block_drop(j, part->block);
    part->block = j->copies.block;
    if (!before || before->block != part->block ||
        before->bytes + before->len != part->bytes)
        return false;
    before->len += part->len;
    block_drop(j, part->block);
    return true;
}

void
xport_journal_compact(struct xport_journal *j)
{
    struct xport_journal_part *parts = j->parts + j->first;
    unsigned kept = 0;

    for (unsigned i = 0; i < j->n; i++) {
        struct xport_journal_part part = parts[i];
        bool brief = part.block >= 0 && part.len <= SHORT_PART;

        if (!brief || !part_join(j, &part, kept ? &j->parts[kept - 1] : NULL))
            j->parts[kept++] = part;
    }
    j->first = 0;
    j->n = kept;
}

/* All places may be taken by parts so short that the peer need not acknowledge them. */
void
xport_journal_keep(struct xport_journal *j, uint64_t until)
{
    if (parts_keep(j, until))
        return;
    xport_journal_compact(j);
    parts_keep(j, until);
}

/* ---- again ------------------------------------------------------------------------
 */

static const struct xport_journal_part *
part_at(const struct xport_journal *j, uint64_t at)
{
    for (unsigned i = j->first; i < j->first + j->n; i++) {
        const struct xport_journal_part *part = &j->parts[i];

        if (at >= part->at && at - part->at < part->len)
            return part;
    }
    return NULL;
}

uint64_t
xport_journal_source(const struct xport_journal *j, uint64_t at, uint64_t *ret_place)
{
    const struct xport_journal_part *part = part_at(j, at);

    if (!part || part->block != XPORT_JOURNAL_SOURCE)
        return 0;
    *ret_place = (uintptr_t)part->bytes + (at - part->at);
    return part->len - (at - part->at);
}

int64_t
xport_journal_at(const struct xport_journal *j, uint64_t at, const uint8_t **ret)
{
    const struct xport_journal_part *part = at == j->end ? NULL : part_at(j, at);

    if (at == j->end)
        return 0;
    if (!part || part->block == XPORT_JOURNAL_CARD ||
        part->block == XPORT_JOURNAL_SOURCE)
        return -ERANGE;
    *ret = part->bytes + (at - part->at);
    return (int64_t)(part->len - (at - part->at));
}
