/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of the PTX memory model: what each thread does, which outcome is asked
 * about, and whether the model allows it.
 *
 * Threads have registers %a, %b, %c (zero at first), %v to use, a predicate %p1, and
 * the addresses %x, %y and %z of variables that are zero at first.  Constants; each
 * program that runs them includes this once.
 */
#ifndef LITMUS_H
#define LITMUS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_THREADS 4

/* What one instance left: registers a, b, c of each thread, and the variables. */
struct outcome {
    const uint32_t *r[MAX_THREADS];
    uint32_t x, y, z;
};

struct litmus {
    const char *name;
    const char *code[MAX_THREADS]; /* SCOPE: cta, gpu or sys */
    bool (*seen)(const struct outcome *o);
    bool allowed;
};

#define A(t) o->r[t][0]
#define B(t) o->r[t][1]
#define C(t) o->r[t][2]
#define SEEN(name, what)                                                               \
    static bool name(const struct outcome *o)                                          \
    {                                                                                  \
        return what;                                                                   \
    }

#define ST(var, value)                                                                 \
    "mov.u32 %v, " #value "; st.relaxed.SCOPE.global.u32 [%" #var "], %v;\n"
#define LD(reg, var) "ld.relaxed.SCOPE.global.u32 %" #reg ", [%" #var "];\n"
#define WEAK_ST(var, value) "mov.u32 %v, " #value "; st.global.u32 [%" #var "], %v;\n"
#define WEAK_LD(reg, var) "ld.global.u32 %" #reg ", [%" #var "];\n"
#define RELEASE(var, value)                                                            \
    "mov.u32 %v, " #value "; st.release.SCOPE.global.u32 [%" #var "], %v;\n"
#define ACQUIRE(reg, var) "ld.acquire.SCOPE.global.u32 %" #reg ", [%" #var "];\n"
#define VOLATILE_ST(var, value)                                                        \
    "mov.u32 %v, " #value "; st.volatile.global.u32 [%" #var "], %v;\n"
#define VOLATILE_LD(reg, var) "ld.volatile.global.u32 %" #reg ", [%" #var "];\n"
#define ATOM(how, reg, var, value) "atom." how " %" #reg ", [%" #var "], " #value ";\n"
#define FENCE "fence.acq_rel.SCOPE;\n"
#define FENCE_SC "fence.sc.SCOPE;\n"

/* One variable. */
SEEN(backwards, A(1) == 1 && B(1) == 0)
SEEN(first_write_wins, o->x != 2)
SEEN(own_write_unseen, A(0) == 0)
SEEN(read_then_overtaken, A(0) == 2 && o->x == 2)
SEEN(reads_the_future, A(0) == 1)
SEEN(readers_disagree, (A(2) == 1 && B(2) == 2 && A(3) == 2 && B(3) == 1) ||
                           (A(2) == 2 && B(2) == 1 && A(3) == 1 && B(3) == 2))
/* Two. */
SEEN(stale, A(1) == 1 && B(1) == 0)
SEEN(both_zero, A(0) == 0 && A(1) == 0)
SEEN(both_one, A(0) == 1 && A(1) == 1)
SEEN(out_of_thin_air, A(0) != 0 || A(1) != 0)
SEEN(both_firsts, o->x == 1 && o->y == 1)
SEEN(overtaken_and_zero, o->y == 2 && A(1) == 0)
SEEN(released_and_overwritten, A(1) == 1 && o->x == 2)
/* Three threads and four. */
SEEN(cause_without_reason, A(1) == 1 && A(2) == 1 && B(2) == 0)
SEEN(second_hand_stale, A(1) == 1 && A(2) == 1 && B(2) == 0)
SEEN(chain_stale, A(2) == 2 && B(2) == 0)
SEEN(orders_differ, A(2) == 1 && B(2) == 0 && A(3) == 1 && B(3) == 0)
/* Atomics. */
SEEN(sum_lost, o->x != 4)
SEEN(same_ticket, A(0) == A(1))
SEEN(not_one_winner, (A(0) == 0) == (A(1) == 0))
SEEN(exchange_lost,
     (A(0) == 0) + (A(1) == 0) != 1 || (o->x == 1 && A(0) != 2 && A(1) != 0))

static const struct litmus litmus_tests[] = {
    {"CoRR", {ST(x, 1), LD(a, x) LD(b, x)}, backwards, false},
    {"CoRR, volatile",
     {VOLATILE_ST(x, 1), VOLATILE_LD(a, x) VOLATILE_LD(b, x)},
     backwards,
     false},
    {"CoWW", {ST(x, 1) ST(x, 2)}, first_write_wins, false},
    {"CoWR", {ST(x, 1) LD(a, x), ST(x, 2)}, own_write_unseen, false},
    {"CoRW", {LD(a, x) ST(x, 1), ST(x, 2)}, read_then_overtaken, false},
    {"CoRW1", {LD(a, x) ST(x, 1)}, reads_the_future, false},
    {"CoRR, two writers",
     {ST(x, 1), ST(x, 2), LD(a, x) LD(b, x), LD(a, x) LD(b, x)},
     readers_disagree,
     false},
    {"MP, relaxed", {ST(x, 1) ST(y, 1), LD(a, y) LD(b, x)}, stale, true},
    {"MP, release and acquire",
     {WEAK_ST(x, 1) RELEASE(y, 1), ACQUIRE(a, y) WEAK_LD(b, x)},
     stale,
     false},
    {"MP, fences",
     {WEAK_ST(x, 1) FENCE ST(y, 1), LD(a, y) FENCE WEAK_LD(b, x)},
     stale,
     false},
    {"MP, membar.gl",
     {VOLATILE_ST(x, 1) "membar.gl;\n" VOLATILE_ST(y, 1),
      VOLATILE_LD(a, y) "membar.gl;\n" VOLATILE_LD(b, x)},
     stale,
     false},
    {"MP, atomics",
     {WEAK_ST(x, 1) ATOM("release.SCOPE.global.exch.b32", c, y, 1) "",
      ATOM("acquire.SCOPE.global.or.b32", a, y, 0) WEAK_LD(b, x)},
     stale,
     false},
    {"SB, relaxed", {ST(x, 1) LD(a, y), ST(y, 1) LD(a, x)}, both_zero, true},
    {"SB, release and acquire",
     {RELEASE(x, 1) ACQUIRE(a, y), RELEASE(y, 1) ACQUIRE(a, x)},
     both_zero,
     true},
    {"SB, fence.sc",
     {ST(x, 1) FENCE_SC LD(a, y), ST(y, 1) FENCE_SC LD(a, x)},
     both_zero,
     false},
    {"SB, membar.gl",
     {VOLATILE_ST(x, 1) "membar.gl;\n" VOLATILE_LD(a, y),
      VOLATILE_ST(y, 1) "membar.gl;\n" VOLATILE_LD(a, x)},
     both_zero,
     false},
    {"SB, membar.sys",
     {ST(x, 1) "membar.sys;\n" LD(a, y), ST(y, 1) "membar.sys;\n" LD(a, x)},
     both_zero,
     false},
    {"LB, relaxed", {LD(a, x) ST(y, 1), LD(a, y) ST(x, 1)}, both_one, true},
    {"LB, release and acquire",
     {ACQUIRE(a, x) RELEASE(y, 1), ACQUIRE(a, y) RELEASE(x, 1)},
     both_one,
     false},
    {"LB, what is read is written",
     {LD(a, x) "st.relaxed.SCOPE.global.u32 [%y], %a;\n",
      LD(a, y) "st.relaxed.SCOPE.global.u32 [%x], %a;\n"},
     out_of_thin_air,
     false},
    {"2+2W, fence.sc",
     {ST(x, 1) FENCE_SC ST(y, 2), ST(y, 1) FENCE_SC ST(x, 2)},
     both_firsts,
     false},
    {"R, fence.sc",
     {ST(x, 1) FENCE_SC ST(y, 1), ST(y, 2) FENCE_SC LD(a, x)},
     overtaken_and_zero,
     false},
    {"S, release and acquire",
     {WEAK_ST(x, 2) RELEASE(y, 1), ACQUIRE(a, y) "setp.eq.u32 %p1, %a, 1;\n"
                                                 "@%p1 st.global.u32 [%x], 1;\n"},
     released_and_overwritten,
     false},
    {"WRC",
     {ST(x, 1), LD(a, x) FENCE ST(y, 1), ACQUIRE(a, y) LD(b, x)},
     cause_without_reason,
     false},
    {"ISA2",
     {WEAK_ST(x, 1) RELEASE(y, 1), ACQUIRE(a, y) RELEASE(z, 1), ACQUIRE(a, z) LD(b, x)},
     second_hand_stale,
     false},
    {"a release, and an atomic on it",
     {ST(x, 1) RELEASE(y, 1), ATOM("relaxed.SCOPE.global.add.u32", c, y, 1) "",
      ACQUIRE(a, y) LD(b, x)},
     chain_stale,
     false},
    {"IRIW, relaxed",
     {ST(x, 1), ST(y, 1), LD(a, x) LD(b, y), LD(a, y) LD(b, x)},
     orders_differ,
     true},
    {"IRIW, fence.sc",
     {ST(x, 1), ST(y, 1), LD(a, x) FENCE_SC LD(b, y), LD(a, y) FENCE_SC LD(b, x)},
     orders_differ,
     false},
    {"sums",
     {ATOM("relaxed.SCOPE.global.add.u32", a, x, 1) "",
      ATOM("relaxed.SCOPE.global.add.u32", a, x, 1) "",
      ATOM("relaxed.SCOPE.global.inc.u32", a, x, 1000) "",
      "red.relaxed.SCOPE.global.add.u32 [%x], 1;\n"},
     sum_lost,
     false},
    {"tickets",
     {ATOM("relaxed.SCOPE.global.add.u32", a, x, 1) "",
      ATOM("relaxed.SCOPE.global.add.u32", a, x, 1) ""},
     same_ticket,
     false},
    {"compare and swap",
     {"atom.relaxed.SCOPE.global.cas.b32 %a, [%x], 0, 1;\n",
      "atom.relaxed.SCOPE.global.cas.b32 %a, [%x], 0, 2;\n"},
     not_one_winner,
     false},
    {"exchanges",
     {"atom.relaxed.SCOPE.global.exch.b32 %a, [%x], 1;\n",
      "atom.relaxed.SCOPE.global.exch.b32 %a, [%x], 2;\n"},
     exchange_lost,
     false},
};

static unsigned
litmus_threads(const struct litmus *l)
{
    unsigned n = 0;

    while (n < MAX_THREADS && l->code[n])
        n++;
    return n;
}

/* @code with @scope where it says SCOPE. */
static void
litmus_code(FILE *to, const char *code, const char *scope)
{
    const char *at;

    for (; (at = strstr(code, "SCOPE")); code = at + 5)
        fprintf(to, "%.*s%s", (int)(at - code), code, scope);
    fputs(code, to);
}

#endif
