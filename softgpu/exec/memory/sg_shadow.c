/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bits for bytes that were written; see sg_shadow.h.
 *
 * A flat directory has a pointer for each 16 MiB of addresses; a page of the directory
 * and one of the bits exist once they are touched.  A bit that is set means written.
 */
#include "sg_shadow.h"

#include "gp_base.h"
#include "sg_map_zero.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define VA_BITS 48
#define REGION_BITS 24
#define REGION (1ull << REGION_BITS)
#define N_REGIONS (1ull << (VA_BITS - REGION_BITS))

static uint8_t **regions; /* NULL: nothing was ever undefined */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* while one is made */

static uint8_t *
region_find(uint64_t addr)
{
    uint8_t **all = __atomic_load_n(&regions, __ATOMIC_ACQUIRE);

    if (!all || addr >> VA_BITS)
        return NULL;
    return __atomic_load_n(&all[addr >> REGION_BITS], __ATOMIC_ACQUIRE);
}

static int
region_make(uint64_t addr)
{
    uint8_t **all, *bits = NULL;

    pthread_mutex_lock(&lock);
    all = regions;
    if (!all && (all = sg_map_zero(N_REGIONS * sizeof(*all))))
        __atomic_store_n(&regions, all, __ATOMIC_RELEASE);
    if (all) {
        bits = all[addr >> REGION_BITS];
        if (!bits && (bits = sg_map_zero(REGION / 8))) {
            memset(bits, 0xff, REGION / 8); /* others' memory in the region */
            __atomic_store_n(&all[addr >> REGION_BITS], bits, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&lock);
    return bits ? 0 : -ENOMEM;
}

static void
mask_write(uint8_t *byte, uint8_t mask, bool set)
{
    if (mask == 0xff)
        __atomic_store_n(byte, set ? 0xff : 0, __ATOMIC_RELAXED);
    else if (set)
        __atomic_fetch_or(byte, mask, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(byte, (uint8_t)~mask, __ATOMIC_RELAXED);
}

/* Bits [from, from + len) of one region. */
static void
bits_write(uint8_t *bits, uint64_t from, uint64_t len, bool set)
{
    uint64_t head = gp_min((8 - from % 8) % 8, len);

    if (head)
        mask_write(&bits[from / 8], (uint8_t)(((1u << head) - 1) << from % 8), set);
    from += head;
    len -= head;
    memset(bits + from / 8, set ? 0xff : 0, len / 8);
    if (len % 8)
        mask_write(&bits[(from + len) / 8], (uint8_t)((1u << len % 8) - 1), set);
}

static void
range_write(uint64_t addr, uint64_t len, bool set)
{
    while (len) {
        uint64_t at = addr % REGION, n = gp_min(REGION - at, len);
        uint8_t *bits = region_find(addr);

        if (bits)
            bits_write(bits, at, n, set);
        addr += n;
        len -= n;
    }
}

int
sg_shadow_undefine(uint64_t addr, uint64_t len)
{
    uint64_t end;

    if (!gp_add_ok(addr, len, &end) || end > 1ull << VA_BITS)
        return -EINVAL;
    for (uint64_t at = addr; at < end; at = (at | (REGION - 1)) + 1)
        if (!region_find(at) && region_make(at) < 0)
            return -ENOMEM;
    range_write(addr, len, false);
    return 0;
}

void
sg_shadow_define(uint64_t addr, uint64_t len)
{
    if (__atomic_load_n(&regions, __ATOMIC_ACQUIRE))
        range_write(addr, len, true);
}

/* Offset of the first byte of [from, from + len) of one region that was not written;
 * @len: there is none. */
static uint64_t
bits_find_clear(const uint8_t *bits, uint64_t from, uint64_t len)
{
    for (uint64_t i = 0; i < len;) {
        uint64_t at = from + i;
        uint8_t byte = __atomic_load_n(&bits[at / 8], __ATOMIC_RELAXED);

        if (byte == 0xff)
            i += 8 - at % 8;
        else if (byte >> at % 8 & 1)
            i++;
        else
            return i;
    }
    return len;
}

/* A kernel names any address, the last ones included: nothing is added beyond it. */
bool
sg_shadow_defined(uint64_t addr, uint64_t len, uint64_t *ret_at)
{
    while (len) {
        uint64_t at = addr % REGION, n = gp_min(REGION - at, len);
        const uint8_t *bits = region_find(addr);
        uint64_t clear = bits ? bits_find_clear(bits, at, n) : n;

        if (clear < n) {
            if (ret_at)
                *ret_at = addr + clear;
            return false;
        }
        addr += n;
        len -= n;
    }
    return true;
}

static bool
bit_read(uint64_t addr)
{
    const uint8_t *bits = region_find(addr);

    return !bits || bits[addr % REGION / 8] >> addr % 8 & 1;
}

/* Runs of equal bits: the two may have theirs at different places of a byte. */
static void
copy_forward(uint64_t to, uint64_t from, uint64_t len)
{
    for (uint64_t i = 0, n; i < len; i += n) {
        bool set = bit_read(from + i);

        for (n = 1; i + n < len && bit_read(from + i + n) == set; n++)
            ;
        range_write(to + i, n, set);
    }
}

static void
copy_backward(uint64_t to, uint64_t from, uint64_t len)
{
    while (len--)
        range_write(to + len, 1, bit_read(from + len));
}

void
sg_shadow_copy(uint64_t to, uint64_t from, uint64_t len)
{
    if (!__atomic_load_n(&regions, __ATOMIC_ACQUIRE) || to == from)
        return;
    if (sg_shadow_defined(from, len, NULL))
        range_write(to, len, true);
    else if (to < from || to - from >= len)
        copy_forward(to, from, len);
    else
        copy_backward(to, from, len);
}
