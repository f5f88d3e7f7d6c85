/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that keeps the card for a given time and writes down from when to when, by
 * the card's own clock: what a share really was can be read off afterwards, whatever
 * anybody else counted.
 */
#include "device.h"

typedef unsigned long long u64;

static inline __device__ u64
clock_ns(void)
{
    u64 now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* Each block stays for @ns, asleep unless @spin, and takes the next of @room slots. */
KERNEL
busy(unsigned *taken, u64 *slots, unsigned room, unsigned spin, u64 ns)
{
    u64 began = clock_ns(), now = began;

    while (now - began < ns) {
        if (!spin)
            asm volatile("nanosleep.u32 20000;");
        now = clock_ns();
    }
    if (threadIdx.x == 0) {
        unsigned i = atomicAdd(taken, 1);

        if (i < room) {
            slots[2 * i] = began;
            slots[2 * i + 1] = now;
        }
    }
}
