/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HMAC-MD2 over the facts that the runtime hashes too.
 *
 * MD2's substitution table is a permutation drawn with the decimal digits of pi, as
 * RFC 1319 describes; it is computed on first use.
 */
#include "stub_validity.h"

#include "attach.pb-c.h"
#include "stub_call.h"
#include "stub_device.h"
#include "stub_link.h"
#include "stub_table.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define MD2_BLOCK 16
#define PI_DIGITS 726 /* 722 are drawn */
#define PI_TERMS (PI_DIGITS * 10 / 3 + 16)

static const uint8_t validity_key[16] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9,
                                         0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36,
                                         0x0b, 0xf5, 0x5a, 0x9f};

/* A runtime asks three times, with its version, that plus one and that plus two.  The
 * first two answers are these bytes whatever the facts are, but for the eighth, which
 * differs between the two; they have been published along with the key. */
static const uint8_t validity_fixed[16] = {0x5c, 0x67, 0xcb, 0x03, 0x1c, 0x18,
                                           0x41, 0x33, 0xe8, 0xd1, 0x4c, 0x1f,
                                           0xaa, 0x83, 0xd3, 0x8e};
#define VALIDITY_EIGHTH 0x18 /* in the second answer */

struct pi_digits {
    uint8_t digit[PI_DIGITS + 16];
    size_t n;
    size_t at;
};

/* Emit a digit of the spigot: nines wait until it is known whether a carry comes. */
static void
pi_emit(struct pi_digits *pi, uint32_t q, int *pre, int *nines)
{
    if (q == 9) {
        ++*nines;
        return;
    }
    if (*pre >= 0)
        pi->digit[pi->n++] = (uint8_t)(*pre + (q == 10));
    for (; *nines > 0 && pi->n < PI_DIGITS; --*nines)
        pi->digit[pi->n++] = q == 10 ? 0 : 9;
    *pre = q == 10 ? 0 : (int)q;
}

/* The digits 3 1 4 1 5 ... by the spigot of Rabinowitz and Wagon. */
static void
pi_compute(struct pi_digits *pi)
{
    uint32_t term[PI_TERMS];
    int pre = -1, nines = 0;

    memset(pi, 0, sizeof(*pi));
    for (size_t i = 0; i < PI_TERMS; i++)
        term[i] = 2;
    while (pi->n < PI_DIGITS) {
        uint32_t carry = 0;

        for (size_t i = PI_TERMS; i-- > 0;) {
            uint32_t x = term[i] * 10 + carry * (uint32_t)(i + 1);
            uint32_t base = i ? 2 * (uint32_t)i + 1 : 10;

            term[i] = x % base;
            carry = x / base;
        }
        pi_emit(pi, carry, &pre, &nines);
    }
}

/* A number below @n, drawn from as few digits as can be without bias. */
static uint32_t
pi_draw(struct pi_digits *pi, uint32_t n)
{
    for (;;) {
        uint32_t x = pi->digit[pi->at++], range = 10;

        while (n > range) {
            x = x * 10 + pi->digit[pi->at++];
            range *= 10;
        }
        if (x < n * (range / n))
            return x % n;
    }
}

static void
md2_table_compute(uint8_t s[256])
{
    struct pi_digits pi;

    pi_compute(&pi);
    for (int i = 0; i < 256; i++)
        s[i] = (uint8_t)i;
    for (uint32_t i = 2; i <= 256; i++) {
        uint32_t j = pi_draw(&pi, i);
        uint8_t t = s[j];

        s[j] = s[i - 1];
        s[i - 1] = t;
    }
}

static const uint8_t *
md2_table(void)
{
    static uint8_t table[256];
    static struct gp_lock lock;
    static bool ready;

    gp_lock_take(&lock);
    if (!ready)
        md2_table_compute(table);
    ready = true;
    gp_lock_release(&lock);
    return table;
}

struct md2 {
    const uint8_t *s;
    uint8_t x[48];
    uint8_t sum[MD2_BLOCK];
    uint8_t buf[MD2_BLOCK];
    size_t used;
};

static void
md2_init(struct md2 *m)
{
    memset(m, 0, sizeof(*m));
    m->s = md2_table();
}

static void
md2_block(struct md2 *m, const uint8_t *block)
{
    uint8_t last = m->sum[MD2_BLOCK - 1], t = 0;

    for (int i = 0; i < MD2_BLOCK; i++) {
        last = m->sum[i] ^= m->s[block[i] ^ last];
        m->x[16 + i] = block[i];
        m->x[32 + i] = m->x[i] ^ block[i];
    }
    for (int round = 0; round < 18; round++) {
        for (int k = 0; k < 48; k++)
            t = m->x[k] ^= m->s[t];
        t = (uint8_t)(t + round);
    }
}

static void
md2_add(struct md2 *m, const void *data, size_t len)
{
    const uint8_t *p = data;

    for (size_t i = 0; i < len; i++) {
        m->buf[m->used++] = p[i];
        if (m->used == MD2_BLOCK) {
            md2_block(m, m->buf);
            m->used = 0;
        }
    }
}

static void
md2_end(struct md2 *m, uint8_t out[16])
{
    uint8_t pad[MD2_BLOCK], sum[MD2_BLOCK];
    size_t n = MD2_BLOCK - m->used;

    memset(pad, (int)n, sizeof(pad));
    md2_add(m, pad, n);
    memcpy(sum, m->sum, sizeof(sum));
    md2_add(m, sum, sizeof(sum));
    memcpy(out, m->x, 16);
}

void
stub_validity_md2(const void *data, size_t len, uint8_t out[16])
{
    struct md2 m;

    md2_init(&m);
    md2_add(&m, data, len);
    md2_end(&m, out);
}

void
stub_validity_hmac(const void *key, size_t key_len, const void *data, size_t len,
                   uint8_t out[16])
{
    uint8_t block[MD2_BLOCK] = {0}, inner[16];
    struct md2 m;

    memcpy(block, key, key_len < sizeof(block) ? key_len : sizeof(block));
    for (int i = 0; i < MD2_BLOCK; i++)
        block[i] ^= 0x36;
    md2_init(&m);
    md2_add(&m, block, sizeof(block));
    md2_add(&m, data, len);
    md2_end(&m, inner);
    for (int i = 0; i < MD2_BLOCK; i++)
        block[i] ^= 0x36 ^ 0x5c;
    md2_init(&m);
    md2_add(&m, block, sizeof(block));
    md2_add(&m, inner, sizeof(inner));
    md2_end(&m, out);
}

/* The message as the runtime lays it out: 48 bytes, then 28 per device. */
struct validity_head {
    uint32_t driver_version;
    uint32_t runtime_version;
    uint32_t pid;
    uint32_t thread;
    uint64_t cudart_table;
    uint64_t check_table;
    uint64_t check_function;
    uint64_t seconds;
};

static_assert(sizeof(struct validity_head) == 48, "hashed as bytes");
static_assert(sizeof(struct stub_validity_device) == 28, "hashed as bytes");

#define VALIDITY_DEVICES 64

void
stub_validity_answer(const struct stub_validity_facts *facts, uint8_t out[16])
{
    uint8_t msg[sizeof(struct validity_head) +
                VALIDITY_DEVICES * sizeof(struct stub_validity_device)];
    struct validity_head head = {
        .driver_version = facts->driver_version,
        .runtime_version = facts->runtime_version,
        .pid = facts->pid,
        .thread = facts->thread,
        .cudart_table = facts->cudart_table,
        .check_table = facts->check_table,
        .check_function = facts->check_function,
        .seconds = facts->seconds,
    };
    size_t n =
        facts->n_devices < VALIDITY_DEVICES ? facts->n_devices : VALIDITY_DEVICES;

    if (facts->runtime_version % 10 < 2) {
        memcpy(out, validity_fixed, sizeof(validity_fixed));
        if (facts->runtime_version % 10 == 1)
            out[7] = VALIDITY_EIGHTH;
        return;
    }
    memcpy(msg, &head, sizeof(head));
    if (n)
        memcpy(msg + sizeof(head), facts->devices, n * sizeof(*facts->devices));
    stub_validity_hmac(validity_key, sizeof(validity_key), msg,
                       sizeof(head) + n * sizeof(*facts->devices), out);
}

/* ---- the table a runtime finds it in ---------------------------------------- */

static CUresult validity_check(uint32_t version, uint64_t seconds, uint8_t out[16]);

static const struct {
    uintptr_t size;
    CUresult (*check)(uint32_t, uint64_t, uint8_t[16]);
    void (*unused_2)(void);
} words = {
    .size = sizeof(words),
    .check = validity_check,
};

const struct stub_table stub_table_check = {
    .name = "validity check",
    .id = {0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c,
           0x66, 0xe1, 0xf2},
    .words = &words,
};

/* Pointers as numbers: the runtime hashes where it found things. */
static CUresult
validity_check(uint32_t version, uint64_t seconds, uint8_t out[16])
{
    struct stub_validity_device devices[VALIDITY_DEVICES];
    struct stub_validity_facts facts = {
        .runtime_version = version,
        .pid = (uint32_t)getpid(),
        .thread = (uint32_t)(uintptr_t)pthread_self(),
        .cudart_table = (uintptr_t)stub_table_cudart.words,
        .check_table = (uintptr_t)&words,
        .check_function = (uintptr_t)validity_check,
        .seconds = seconds,
        .devices = devices,
        .n_devices = gp_min(stub_device_count, (uint32_t)VALIDITY_DEVICES),
    };
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    facts.driver_version = (uint32_t)stub_link_driver_version();
    for (size_t i = 0; i < facts.n_devices; i++) {
        const struct stub_device *d = &stub_devices[i];

        memcpy(devices[i].uuid, d->info->uuid.data, 16);
        devices[i].domain = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
        devices[i].bus = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
        devices[i].device = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    }
    stub_validity_answer(&facts, out);
    return CUDA_SUCCESS;
}
