/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver that turns on its host: softgpu, but a call of cuMemAlloc first does
 * what the test asks for.  It runs where a hostile client's code would run, in a worker
 * in its sandbox.
 *
 * The test asks through a file that both map (HOSTILE_CONTROL).
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hostile {
    atomic_uint armed;  /* set last by the test; cleared when there is a result */
    int32_t error;      /* 0: the attack succeeded; else the errno that stopped it */
    int32_t victim;     /* another session's worker */
    int32_t supervisor; /* gpupool-server */
    uint64_t amount;    /* of bombs: more than this is a success of the attack */
    char name[64];
    char path[256]; /* of a file, or to be one */
};

/* Attack number @index; NULL behind the last. */
const char *hostile_name(unsigned index);

/* Do it: 0 or -errno. */
int hostile_attack(struct hostile *control);

/* The same of those over what a worker shares with its supervisor, which have no
 * number.  False: there is none of that name. */
bool hostile_channel_attack(struct hostile *control, int *ret);

#endif
