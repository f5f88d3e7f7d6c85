/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference arithmetic for the goldens of softgpu: every floating-point format as
 * integers, exact intermediate values, one rounding at the end.
 *
 * It uses no floating-point instruction of the host and shares nothing with
 * softgpu/exec, so agreement means something.  Slow and plain on purpose.
 */
#ifndef SG_REF_H
#define SG_REF_H

#include <stdbool.h>
#include <stdint.h>

enum ref_round { REF_RN, REF_RZ, REF_RM, REF_RP, REF_RNA };

struct ref_fmt {
    int bits;      /* of storage */
    int precision; /* with the hidden bit */
    int emin;      /* exponent of the smallest normal number */
    int emax;
    uint64_t nan; /* what a NaN result looks like */
};

extern const struct ref_fmt ref_f16, ref_bf16, ref_f32, ref_f64;

enum ref_class { REF_ZERO, REF_FINITE, REF_INF, REF_NAN };

/* (m + something less than 1 if sticky) * 2^e */
struct ref_num {
    enum ref_class class;
    bool neg;
    bool sticky;
    int e;
    unsigned __int128 m;
};

struct ref_num ref_unpack(const struct ref_fmt *fmt, uint64_t bits);
uint64_t ref_pack(const struct ref_fmt *fmt, struct ref_num num, enum ref_round round);

/* The NaN @bits of f64 in a narrower format: its sign and the upper payload, quiet. */
uint64_t ref_narrow_nan(const struct ref_fmt *fmt, uint64_t bits);

/* Subnormals become zeros of their sign. */
uint64_t ref_flush(const struct ref_fmt *fmt, uint64_t bits);
/* Into [+0, 1]; NaN becomes +0. */
uint64_t ref_saturate(const struct ref_fmt *fmt, uint64_t bits);
bool ref_is_nan(const struct ref_fmt *fmt, uint64_t bits);
bool ref_is_subnormal(const struct ref_fmt *fmt, uint64_t bits);

/* Exact; @round only decides the sign of an exact zero. */
struct ref_num ref_add(struct ref_num a, struct ref_num b, enum ref_round round);
struct ref_num ref_mul(struct ref_num a, struct ref_num b);
struct ref_num ref_div(struct ref_num a, struct ref_num b);
struct ref_num ref_sqrt(struct ref_num a);
struct ref_num ref_neg(struct ref_num a);
struct ref_num ref_from_int(int64_t value);
struct ref_num ref_from_uint(uint64_t value);

/* -1, 0, 1; 2: unordered */
int ref_compare(struct ref_num a, struct ref_num b);

/* To an integer of @bits bits, saturating; NaN gives the top bit. */
uint64_t ref_to_int(struct ref_num a, int bits, bool is_signed, enum ref_round round);
/* To an integral value. */
struct ref_num ref_integral(struct ref_num a, enum ref_round round);

#endif
