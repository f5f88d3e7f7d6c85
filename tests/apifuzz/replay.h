/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that a program of the fuzzer can make. */
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>

typedef long long num;

#define NO_OBJECT (-1) /* a call on what was never made */

struct replay_op {
    const char *name;
    int (*run)(const num *a); /* the CUresult, or NO_OBJECT */
};

extern const struct replay_op replay_ops[]; /* ended by a NULL */
extern char replay_out[256];                /* what a call says besides */
extern bool replay_settling;

#endif
