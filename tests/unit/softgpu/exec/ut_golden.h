/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goldens: a piece of PTX that makes %d of %a, %b and %c, and a plain C function
 * that says what %d must be.  Each runs on the executor over a few thousand input
 * tuples, once with all lanes and once with a part of them masked off.
 */
#ifndef UT_GOLDEN_H
#define UT_GOLDEN_H

#include "ut.h"

#include <stdbool.h>

enum golden_match {
    GOLDEN_EXACT,
    GOLDEN_NAN,    /* exact, but any NaN is as good as another */
    GOLDEN_APPROX, /* within @bound of the reference, relative or absolute */
};

/* What a reference may need beside its inputs. */
struct golden_arg {
    int round; /* enum ref_round */
    bool ftz;
    bool sat;
    int bits;
    bool is_signed;
};

typedef uint64_t golden_ref(const struct golden_arg *arg, uint64_t a, uint64_t b,
                            uint64_t c);

struct golden {
    const char *insn; /* reads %a %b %c, writes %d; may use %q0..%q3, %t0..%t3 (b32) */
    uint8_t in[3];    /* bits of %a, %b, %c: 16, 32 or 64 */
    uint8_t out;      /* bits of %d; compared in full */
    golden_ref *ref;
    struct golden_arg arg;
    enum golden_match match;
    char kind; /* of the inputs: 'i' integers, 'f' floats of the input's width,
                  'h' halves, 'b' bfloats; two of one in 32 bits are packed */
    double bound;
};

/* Run all, print each that differs (with inputs), fail if any did. */
void golden_run(const struct golden *list, size_t n);

#define GOLDEN_RUN(list) golden_run(list, sizeof(list) / sizeof((list)[0]))

#endif
