/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS records as they come from a socket: bytes of anybody's, and records of a peer
 * that has the keys and keeps no rule.
 *
 * The first byte chooses.  In the second case each piece of the input, a type, a
 * length and as many bytes, is sealed with the right key as one record: data, alerts,
 * requests to change keys, messages of the handshake, types that there are not.
 */
#include "tls_record.h"

#include "gp_wire.h"
#include "tls_crypto.h"

#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD 5
#define TAG 16
#define IV 12
#define PIECE_MAX 300u

static uint8_t stream[64 << 10];
static size_t stream_len;

static const struct tls_keys keys = {
    .suite = TLS_SUITE_AES128, .tx = {.secret = {1}}, .rx = {.secret = {2}}};

/* One record (RFC 8446, 5.2) with number @seq and the type inside. */
static void
seal(uint64_t seq, uint8_t type, const uint8_t *data, size_t size)
{
    static uint8_t key[16], iv[IV];
    static EVP_CIPHER_CTX *ctx;
    uint8_t nonce[IV], *at = stream + stream_len;
    size_t len = size + 1 + TAG;
    int n;

    if (!ctx) {
        ctx = EVP_CIPHER_CTX_new();
        tls_crypto_expand(keys.rx.secret, "key", key, sizeof(key));
        tls_crypto_expand(keys.rx.secret, "iv", iv, sizeof(iv));
    }
    memcpy(nonce, iv, IV);
    for (unsigned i = 0; i < 8; i++)
        nonce[IV - 1 - i] ^= (uint8_t)(seq >> 8 * i);
    memcpy(at, (uint8_t[HEAD]){23, 3, 3, (uint8_t)(len >> 8), (uint8_t)len}, HEAD);
    if (!EVP_EncryptInit_ex(ctx, tls_crypto_cipher(keys.suite), NULL, key, nonce) ||
        !EVP_EncryptUpdate(ctx, NULL, &n, at, HEAD) ||
        !EVP_EncryptUpdate(ctx, at + HEAD, &n, data, (int)size) ||
        !EVP_EncryptUpdate(ctx, at + HEAD + size, &n, &type, 1) ||
        !EVP_EncryptFinal_ex(ctx, at + HEAD + size + 1, &n) ||
        !EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, at + HEAD + size + 1))
        __builtin_trap();
    stream_len += HEAD + len;
}

static void
seal_all(const uint8_t *data, size_t size)
{
    static const uint8_t types[] = {23, 21, 22, 22, 20, 0, 24, 23};

    for (uint64_t seq = 0; size >= 2 && stream_len < sizeof(stream) - 1024; seq++) {
        size_t n = data[1] < size - 2 ? data[1] : size - 2;

        seal(seq, data[0] < 0xf0 ? types[data[0] % 8] : data[0], data + 2, n);
        data += 2 + n;
        size -= 2 + n;
    }
}

/* Not a byte behind the piece may be written. */
static void
receive(struct gp_wire *wire, int fd, uint8_t step)
{
    static uint8_t piece[PIECE_MAX + 1];
    ssize_t n = 1;

    for (unsigned i = 0; i < 200 && n > 0; i++) {
        size_t len = 1 + (step * (i + 1)) % PIECE_MAX;

        piece[len] = 0x5a;
        n = gp_wire_recv(wire, fd, piece, len, MSG_DONTWAIT);
        if (piece[len] != 0x5a || n > (ssize_t)len)
            __builtin_trap();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gp_wire *wire = NULL;
    struct tls_keys after;
    int fd[2];

    if (size < 2)
        return 0;
    stream_len = 0;
    if (data[0] & 1) {
        seal_all(data + 2, size - 2);
    } else {
        stream_len = gp_min(size - 2, sizeof(stream));
        memcpy(stream, data + 2, stream_len);
    }
    if (tls_record_new(&keys, &wire, NULL) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0 ||
        (stream_len && write(fd[1], stream, stream_len) != (ssize_t)stream_len))
        __builtin_trap();
    shutdown(fd[1], SHUT_WR);
    receive(wire, fd[0], data[1]);
    gp_wire_send(wire, fd[0], &(struct iovec){stream, 16}, 1, MSG_DONTWAIT);
    if (tls_record_keys(wire, &after) == 0 && after.suite != keys.suite)
        __builtin_trap();
    gp_wire_free(wire);
    close(fd[0]);
    close(fd[1]);
    return 0;
}
