/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of a fat binary: what each holds, for which card, and its bytes
 * unpacked.
 *
 * Pure functions over somebody else's memory, which is taken to be hostile: nothing
 * outside of the given bytes is read, and what an entry claims to unpack to is believed
 * up to a cap only.  Any thread.  Where the fat binary itself ends gp_image.h tells;
 * what an entry means is the reader's business.  Users link -lzstd -llz4.
 */
#ifndef GP_FATBIN_H
#define GP_FATBIN_H

#include "gp_base.h"

struct gp_err;

/* Text compresses at most about 60:1 with the modules seen, and machine code less; a
 * claim beyond the ratio is an attack, not a module. */
#define GP_FATBIN_MAX_RATIO 1000
#define GP_FATBIN_MAX_ENTRIES 65536 /* of one fat binary; the largest had 1,800 */

enum gp_fatbin_kind { GP_FATBIN_PTX = 1, GP_FATBIN_ELF = 2, GP_FATBIN_LTO = 8 };

enum gp_fatbin_packing {
    GP_FATBIN_PLAIN,
    GP_FATBIN_LZ4,
    GP_FATBIN_ZSTD,
};

/* One entry; pointers into the image. */
struct gp_fatbin_entry {
    uint16_t kind; /* enum gp_fatbin_kind, or a number we do not know */
    uint16_t version_major;
    uint16_t version_minor;
    uint32_t sm; /* 86 */
    uint64_t flags;
    bool arch_specific;   /* sm_90a: this sm and no other   */
    bool family_specific; /* sm_100f: same major, >= minor  */
    enum gp_fatbin_packing packing;
    const uint8_t *data;
    uint64_t len;     /* packed bytes */
    uint64_t raw_len; /* unpacked bytes */
};

/* Walk a fat binary of exactly @len bytes: *pos starts at 0.  1: *ret is the
 * next entry; 0: there are no more; -EINVAL, -E2BIG: broken. */
int gp_fatbin_next(const void *fatbin, size_t len, size_t *pos,
                   struct gp_fatbin_entry *ret, struct gp_err *err);

/* The entry's payload, unpacked: *ret_len bytes and a NUL behind them, to be freed. */
int gp_fatbin_unpack(const struct gp_fatbin_entry *entry, char **ret, size_t *ret_len,
                     struct gp_err *err);

/* May a card of compute capability @sm (86 for 8.6) use it?  PTX of what is not newer,
 * machine code of the same generation. */
bool gp_fatbin_fits(const struct gp_fatbin_entry *entry, unsigned sm);

/* Of two entries of one kind that fit: is @a the better one?  The higher, and of two
 * equal ones the one that asks for less. */
bool gp_fatbin_better(const struct gp_fatbin_entry *a, const struct gp_fatbin_entry *b);

#endif
