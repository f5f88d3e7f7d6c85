/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_record.h"

#include "gp_err.h"
#include "gp_wire.h"
#include "tls_crypto.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <string.h>

#define HEAD 5
#define TAG 16
#define IV 12
#define PLAIN_MAX 16384u
/* What a record may hold besides: its type, the tag, and padding (RFC 8446, 5.2). */
#define SEALED_MAX (PLAIN_MAX + 256u)

/* Records that leave together: as much as the stream's own buffer. */
#define BATCH 4u
#define RECORD_MAX (HEAD + SEALED_MAX)
/* One more for a change of keys. */
#define BUFFER ((BATCH + 1) * RECORD_MAX)

/* RFC 8446, 5.5: AES-GCM is good for 2^24.5 records with one key. */
#define REKEY_AFTER (UINT64_C(1) << 24)

enum { TYPE_ALERT = 21, TYPE_HANDSHAKE = 22, TYPE_DATA = 23 };
enum { HANDSHAKE_TICKET = 4, HANDSHAKE_KEY_UPDATE = 24, ALERT_CLOSE = 0 };

/* One direction. */
struct half {
    struct tls_half at;
    EVP_CIPHER_CTX *ctx;
    uint8_t iv[IV];
    /* tx: sealed and not sent.  rx: received and not opened. */
    uint8_t *buf;
    size_t pos, end;
};

struct record {
    struct gp_wire wire;
    const EVP_CIPHER *cipher;
    uint32_t suite;
    _Atomic bool update_wanted; /* the peer asks the sender to change its keys */
    _Alignas(64) struct half tx;
    size_t sealed; /* bytes of the caller's that tx.buf holds */
    uint64_t rekey_after;
    _Alignas(64) struct half rx;
    uint8_t *plain; /* of a record that the receiver had no room for */
    size_t plain_pos, plain_end;
    bool closed;
    int error; /* sticky, of the receiver */
};

static struct record *
record_of(const struct gp_wire *wire)
{
    return container_of((struct gp_wire *)(uintptr_t)wire, struct record, wire);
}

/* ---- keys ------------------------------------------------------------------------ */

static int
half_set_keys(struct record *rec, struct half *half, bool seal)
{
    uint8_t key[EVP_MAX_KEY_LENGTH];
    int r = tls_crypto_expand(half->at.secret, "key", key,
                              (size_t)EVP_CIPHER_get_key_length(rec->cipher));

    if (r == 0)
        r = tls_crypto_expand(half->at.secret, "iv", half->iv, sizeof(half->iv));
    if (r == 0 &&
        !EVP_CipherInit_ex2(half->ctx, rec->cipher, key, half->iv, seal, NULL))
        r = -ENOMEM;
    OPENSSL_cleanse(key, sizeof(key));
    return r;
}

static int
half_update_keys(struct record *rec, struct half *half, bool seal)
{
    uint8_t next[TLS_SECRET_SIZE];
    int r = tls_crypto_expand(half->at.secret, "traffic upd", next, sizeof(next));

    if (r < 0)
        return r;
    memcpy(half->at.secret, next, sizeof(next));
    half->at.seq = 0;
    OPENSSL_cleanse(next, sizeof(next));
    return half_set_keys(rec, half, seal);
}

/* The next record's nonce, and its header as the additional data. */
static bool
half_begin(struct half *half, const uint8_t head[HEAD])
{
    uint8_t nonce[IV];
    int n;

    memcpy(nonce, half->iv, IV);
    for (unsigned i = 0; i < 8; i++)
        nonce[IV - 1 - i] ^= (uint8_t)(half->at.seq >> 8 * i);
    half->at.seq++;
    return EVP_CipherInit_ex2(half->ctx, NULL, NULL, nonce, -1, NULL) &&
           EVP_CipherUpdate(half->ctx, NULL, &n, head, HEAD);
}

/* ---- sending --------------------------------------------------------------------- */

/* A place in the caller's bytes. */
struct source {
    const struct iovec *iov;
    size_t n_iov, at;
};

static void
source_skip(struct source *src, size_t n)
{
    while (src->n_iov && n >= src->iov->iov_len - src->at) {
        n -= src->iov->iov_len - src->at;
        src->iov++;
        src->n_iov--;
        src->at = 0;
    }
    src->at += n;
}

static size_t
source_left(const struct source *src, size_t enough)
{
    size_t n = 0;

    for (size_t i = 0; i < src->n_iov && n < enough; i++)
        n += src->iov[i].iov_len;
    n -= gp_min(src->at, n);
    return gp_min(n, enough);
}

/* Seal @len bytes of @src as one record behind what waits. */
static int
seal(struct record *rec, struct source *src, size_t len, uint8_t type)
{
    struct half *tx = &rec->tx;
    uint8_t *head = tx->buf + tx->end, *to = head + HEAD;
    size_t inner = len + 1;
    int n;

    head[0] = TYPE_DATA;
    head[1] = head[2] = 3;
    head[3] = (uint8_t)((inner + TAG) >> 8);
    head[4] = (uint8_t)(inner + TAG);
    if (!half_begin(tx, head))
        return -EIO;
    while (len) {
        size_t piece = gp_min(src->iov->iov_len - src->at, len);

        if (!EVP_CipherUpdate(tx->ctx, to, &n,
                              (const uint8_t *)src->iov->iov_base + src->at,
                              (int)piece))
            return -EIO;
        to += n;
        len -= piece;
        source_skip(src, piece);
    }
    if (!EVP_CipherUpdate(tx->ctx, to, &n, &type, 1))
        return -EIO;
    to += n;
    if (!EVP_CipherFinal_ex(tx->ctx, to, &n) ||
        !EVP_CIPHER_CTX_ctrl(tx->ctx, EVP_CTRL_AEAD_GET_TAG, TAG, to))
        return -EIO;
    tx->end += HEAD + inner + TAG;
    return 0;
}

static int
seal_key_update(struct record *rec)
{
    uint8_t body[] = {HANDSHAKE_KEY_UPDATE, 0, 0, 1, 0 /* none is asked for */};
    struct iovec iov = {body, sizeof(body)};
    struct source src = {&iov, 1, 0};
    int r = seal(rec, &src, sizeof(body), TYPE_HANDSHAKE);

    return r < 0 ? r : half_update_keys(rec, &rec->tx, true);
}

/* As many records as leave together; nothing waits. */
static int
seal_batch(struct record *rec, struct source *src)
{
    int r = 0;

    rec->tx.pos = rec->tx.end = 0;
    if (unlikely(rec->tx.at.seq >= rec->rekey_after ||
                 atomic_load_explicit(&rec->update_wanted, memory_order_relaxed))) {
        atomic_store(&rec->update_wanted, false);
        r = seal_key_update(rec);
    }
    for (unsigned i = 0; i < BATCH && r == 0; i++) {
        size_t len = source_left(src, PLAIN_MAX);

        if (!len)
            break;
        r = seal(rec, src, len, TYPE_DATA);
        rec->sealed += len;
    }
    return r;
}

static ssize_t
record_send(struct gp_wire *wire, int fd, const struct iovec *iov, size_t n_iov,
            int flags)
{
    struct record *rec = record_of(wire);
    struct half *tx = &rec->tx;
    struct source src = {iov, n_iov, 0};
    ssize_t total = 0;

    /* These were sealed by a call before, which could not send all of them. */
    if (rec->sealed && source_left(&src, rec->sealed) < rec->sealed)
        return -EINVAL;
    source_skip(&src, rec->sealed);
    for (;;) {
        struct iovec out;
        ssize_t n;

        if (tx->pos == tx->end) {
            int r = seal_batch(rec, &src);

            if (r < 0)
                return r;
            if (tx->end == 0)
                return total;
        }
        out = (struct iovec){tx->buf + tx->pos, tx->end - tx->pos};
        n = gp_wire_send(NULL, fd, &out, 1, flags);
        if (n < 0)
            return total && n == -EAGAIN ? total : n;
        tx->pos += (size_t)n;
        if (tx->pos < tx->end)
            continue;
        total += (ssize_t)rec->sealed;
        rec->sealed = 0;
        if (!source_left(&src, 1))
            return total;
    }
}

/* ---- receiving ------------------------------------------------------------------- */

/* The whole record that comes next; 0: not all of it is here. */
static ssize_t
next_record(const struct record *rec)
{
    const struct half *rx = &rec->rx;
    const uint8_t *head = rx->buf + rx->pos;
    size_t len;

    if (rx->end - rx->pos < HEAD)
        return 0;
    len = (size_t)head[3] << 8 | head[4];
    if (head[0] != TYPE_DATA || head[1] != 3 || head[2] != 3 || len < TAG + 1 ||
        len > SEALED_MAX)
        return -EBADMSG;
    return rx->end - rx->pos < HEAD + len ? 0 : (ssize_t)(HEAD + len);
}

/* Open the record of @size bytes into @buf, which has room for all but its type and
 * tag; *ret_type 0 never occurs. */
static int
open_record(struct record *rec, size_t size, uint8_t *buf, size_t *ret_n,
            uint8_t *ret_type)
{
    struct half *rx = &rec->rx;
    uint8_t *head = rx->buf + rx->pos, *sealed = head + HEAD;
    size_t len = size - HEAD - TAG - 1; /* without the type, or the last padding byte */
    uint8_t rest[TAG];
    int n = 0, m = 0;

    if (!half_begin(rx, head) ||
        !EVP_CIPHER_CTX_ctrl(rx->ctx, EVP_CTRL_AEAD_SET_TAG, TAG, sealed + len + 1) ||
        (len && !EVP_CipherUpdate(rx->ctx, buf, &n, sealed, (int)len)) ||
        !EVP_CipherUpdate(rx->ctx, ret_type, &m, sealed + len, 1) ||
        EVP_CipherFinal_ex(rx->ctx, rest, &n) <= 0)
        return -EBADMSG;
    rx->pos += size;
    while (*ret_type == 0 && len)
        *ret_type = buf[--len];
    *ret_n = len;
    return *ret_type && len <= PLAIN_MAX ? 0 : -EBADMSG;
}

/* What is no data: a new key, the end, or a reason to end. */
static int
take_other(struct record *rec, uint8_t type, const uint8_t *bytes, size_t n)
{
    if (type == TYPE_ALERT && n == 2) {
        rec->closed = true;
        return bytes[1] == ALERT_CLOSE ? 0 : -EKEYREJECTED;
    }
    if (type != TYPE_HANDSHAKE || n < 4)
        return -EBADMSG;
    if (bytes[0] == HANDSHAKE_TICKET) /* of no use to us */
        return 0;
    if (bytes[0] != HANDSHAKE_KEY_UPDATE || n != 5 || bytes[3] != 1 || bytes[4] > 1)
        return -EBADMSG;
    if (bytes[4])
        atomic_store(&rec->update_wanted, true);
    return half_update_keys(rec, &rec->rx, false);
}

/* Open one record, into @buf if it fits, else into our own. */
static ssize_t
take_record(struct record *rec, size_t size, uint8_t *buf, size_t room)
{
    bool direct = room >= size - HEAD - TAG - 1;
    uint8_t *to = direct ? buf : rec->plain, type = 0;
    size_t n = 0;
    int r = open_record(rec, size, to, &n, &type);

    if (r == 0 && type != TYPE_DATA)
        return take_other(rec, type, to, n);
    if (r < 0 || direct)
        return r < 0 ? r : (ssize_t)n;
    rec->plain_pos = gp_min(n, room);
    rec->plain_end = n;
    memcpy(buf, rec->plain, rec->plain_pos);
    return (ssize_t)rec->plain_pos;
}

/* What is here, without the kernel. */
static ssize_t
take_buffered(struct record *rec, uint8_t *buf, size_t len)
{
    size_t total = gp_min(rec->plain_end - rec->plain_pos, len);
    ssize_t size, n;

    memcpy(buf, rec->plain + rec->plain_pos, total);
    rec->plain_pos += total;
    while (total < len && !rec->closed && !rec->error &&
           (size = next_record(rec)) != 0) {
        n = size < 0 ? size : take_record(rec, (size_t)size, buf + total, len - total);
        if (n < 0)
            rec->error = (int)n;
        else
            total += (size_t)n;
    }
    return total ? (ssize_t)total : rec->error;
}

static ssize_t
record_recv(struct gp_wire *wire, int fd, void *buf, size_t len, int flags)
{
    struct record *rec = record_of(wire);
    struct half *rx = &rec->rx;

    for (;;) {
        ssize_t n = take_buffered(rec, buf, len);

        if (n || rec->closed)
            return n;
        if (rx->pos) {
            rx->end -= rx->pos;
            memmove(rx->buf, rx->buf + rx->pos, rx->end);
            rx->pos = 0;
        }
        n = gp_wire_recv(NULL, fd, rx->buf + rx->end, BUFFER - rx->end, flags);
        if (n < 0)
            return n;
        if (n == 0)
            return rx->end ? -ECONNRESET : 0;
        rx->end += (size_t)n;
    }
}

static bool
record_pending(const struct gp_wire *wire)
{
    const struct record *rec = record_of(wire);

    return rec->plain_pos != rec->plain_end || rec->closed || rec->error ||
           next_record(rec) != 0;
}

/* ---- life ------------------------------------------------------------------------ */

static void
half_free(struct half *half)
{
    EVP_CIPHER_CTX_free(half->ctx);
    OPENSSL_clear_free(half->buf, half->buf ? BUFFER : 0);
}

static void
record_free(struct gp_wire *wire)
{
    struct record *rec = record_of(wire);

    half_free(&rec->tx);
    half_free(&rec->rx);
    OPENSSL_clear_free(rec->plain, rec->plain ? SEALED_MAX : 0);
    OPENSSL_cleanse(rec, sizeof(*rec));
    free(rec);
}

static const struct gp_wire_ops record_ops = {
    .send = record_send,
    .recv = record_recv,
    .pending = record_pending,
    .free = record_free,
};

static int
half_init(struct record *rec, struct half *half, const struct tls_half *at, bool seals)
{
    half->at = *at;
    half->ctx = EVP_CIPHER_CTX_new();
    half->buf = OPENSSL_malloc(BUFFER);
    return half->ctx && half->buf ? half_set_keys(rec, half, seals) : -ENOMEM;
}

int
tls_record_new(const struct tls_keys *keys, struct gp_wire **ret, struct gp_err *err)
{
    struct record *rec = aligned_alloc(64, GP_ALIGN_UP(sizeof(*rec), 64));
    int r = 0;

    if (!rec)
        return gp_err_set(err, -ENOMEM, "out of memory");
    *rec = (struct record){.wire.ops = &record_ops,
                           .cipher = tls_crypto_cipher(keys->suite),
                           .suite = keys->suite,
                           .rekey_after = REKEY_AFTER};
    if (!rec->cipher)
        r = gp_err_set(err, -EPROTONOSUPPORT, "no TLS cipher suite 0x%04x",
                       keys->suite);
    if (r == 0 && !(rec->plain = OPENSSL_malloc(SEALED_MAX)))
        r = gp_err_set(err, -ENOMEM, "out of memory");
    if (r == 0 && (half_init(rec, &rec->tx, &keys->tx, true) < 0 ||
                   half_init(rec, &rec->rx, &keys->rx, false) < 0))
        r = gp_err_set(err, -ENOMEM, "no memory for TLS records");
    if (r < 0)
        record_free(&rec->wire);
    else
        *ret = &rec->wire;
    return r;
}

int
tls_record_keys(const struct gp_wire *wire, struct tls_keys *ret)
{
    const struct record *rec = record_of(wire);

    if (rec->tx.pos != rec->tx.end || rec->rx.pos != rec->rx.end ||
        rec->plain_pos != rec->plain_end || rec->closed)
        return -EBUSY;
    *ret = (struct tls_keys){.suite = rec->suite, .tx = rec->tx.at, .rx = rec->rx.at};
    return 0;
}

void
tls_record_rekey_after(struct gp_wire *wire, uint64_t records)
{
    record_of(wire)->rekey_after = records;
}
