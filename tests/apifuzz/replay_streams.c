/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, host functions and captures. */
#include "replay.h"

#include <stdlib.h>

CUstream
replay_stream(num number)
{
    return number < 0 ? NULL : rp.streams[number];
}

bool
replay_stream_is(num number)
{
    return number < 0 || rp.streams[number];
}

/* Whether it is ready is a matter of time. */
static int
untimed(CUresult r)
{
    return r == CUDA_ERROR_NOT_READY ? 0 : (int)r;
}

/* A function's value and its log. */
struct said {
    struct replay_log *log;
    uint32_t value;
    struct said *next;
};

/* All of them: so nobody who looks for leaks takes them for lost. */
static struct said *_Atomic all_said;

void
replay_function(void *arg)
{
    const struct said *said = arg;
    uint32_t n = atomic_fetch_add(&said->log->n, 1);

    said->log->value[n % REPLAY_LOG_MAX] = said->value;
}

/* What a function writes: all of some host memory. */
struct written {
    uint8_t *at;
    size_t size;
    num seed;
    struct written *next;
};

static struct written *_Atomic all_written; /* as all_said */

static void
write_function(void *arg)
{
    const struct written *written = arg;

    replay_fill(written->at, written->size, written->seed);
}

static void
stream_callback(CUstream stream, CUresult status, void *arg)
{
    (void)stream;
    (void)status;
    replay_function(arg);
}

void *
replay_argument(num log, num value)
{
    struct said *said = malloc(sizeof(*said));

    *said = (struct said){&rp.logs[log], (uint32_t)value, atomic_load(&all_said)};
    while (!atomic_compare_exchange_weak(&all_said, &said->next, said))
        ;
    return said;
}

OP(st)
{
    replay_own(REPLAY_STREAM, a[0]);
    return (int)cuStreamCreate(&rp.streams[a[0]], (unsigned)a[1]);
}

OP(std)
{
    CUstream stream = rp.streams[a[0]];

    if (!rp.keeping)
        rp.streams[a[0]] = NULL;
    return stream ? (int)cuStreamDestroy_v2(stream) : NO_OBJECT;
}

OP(sts)
{
    return replay_stream_is(a[0]) ? (int)cuStreamSynchronize(replay_stream(a[0]))
                                  : NO_OBJECT;
}

OP(stq)
{
    return replay_stream_is(a[0]) ? untimed(cuStreamQuery(replay_stream(a[0])))
                                  : NO_OBJECT;
}

OP(sti)
{
    CUstreamCaptureStatus status = 0;
    unsigned flags = 0;
    int priority = 0;
    CUresult r;

    if (!replay_stream_is(a[0]))
        return NO_OBJECT;
    r = cuStreamIsCapturing(replay_stream(a[0]), &status);
    replay_say(" %d", (int)status);
    r = cuStreamGetFlags(replay_stream(a[0]), &flags);
    replay_say(" %u %d", flags, (int)r);
    r = cuStreamGetPriority(replay_stream(a[0]), &priority);
    replay_say(" %d", priority);
    return (int)r;
}

OP(ev)
{
    replay_own(REPLAY_EVENT, a[0]);
    return (int)cuEventCreate(&rp.events[a[0]], (unsigned)a[1]);
}

OP(evd)
{
    CUevent event = rp.events[a[0]];

    rp.events[a[0]] = NULL;
    return event ? (int)cuEventDestroy_v2(event) : NO_OBJECT;
}

OP(evr)
{
    return rp.events[a[0]] && replay_stream_is(a[1])
               ? (int)cuEventRecord(rp.events[a[0]], replay_stream(a[1]))
               : NO_OBJECT;
}

OP(evs)
{
    return rp.events[a[0]] ? (int)cuEventSynchronize(rp.events[a[0]]) : NO_OBJECT;
}

OP(evq)
{
    return rp.events[a[0]] ? untimed(cuEventQuery(rp.events[a[0]])) : NO_OBJECT;
}

OP(evw)
{
    return rp.events[a[1]] && replay_stream_is(a[0])
               ? (int)cuStreamWaitEvent(replay_stream(a[0]), rp.events[a[1]], 0)
               : NO_OBJECT;
}

OP(hfn)
{
    return replay_stream_is(a[0])
               ? (int)cuLaunchHostFunc(replay_stream(a[0]), replay_function,
                                       replay_argument(a[1], a[2]))
               : NO_OBJECT;
}

/* A function that writes: STREAM HOST SEED */
OP(hwr)
{
    struct written *written;

    if (!replay_stream_is(a[0]) || !rp.hosts[a[1]].at)
        return NO_OBJECT;
    written = malloc(sizeof(*written));
    *written = (struct written){rp.hosts[a[1]].at, rp.hosts[a[1]].size, a[2],
                                atomic_load(&all_written)};
    while (!atomic_compare_exchange_weak(&all_written, &written->next, written))
        ;
    return (int)cuLaunchHostFunc(replay_stream(a[0]), write_function, written);
}

OP(cb)
{
    return replay_stream_is(a[0])
               ? (int)cuStreamAddCallback(replay_stream(a[0]), stream_callback,
                                          replay_argument(a[1], a[2]), 0)
               : NO_OBJECT;
}

OP(log)
{
    struct replay_log *log = &rp.logs[a[0]];
    uint32_t n = atomic_exchange(&log->n, 0);

    replay_say(
        " %u %08x", n,
        replay_hash((const uint8_t *)log->value,
                    sizeof(*log->value) * (n < REPLAY_LOG_MAX ? n : REPLAY_LOG_MAX)));
    return 0;
}

/* Waits for a word that somebody writes, or nobody: STREAM DEVICE VALUE */
OP(stv)
{
    if (!replay_stream_is(a[0]) || !rp.devs[a[1]].at)
        return NO_OBJECT;
    return (int)cuStreamWaitValue32_v2(replay_stream(a[0]), rp.devs[a[1]].at,
                                       (cuuint32_t)a[2], CU_STREAM_WAIT_VALUE_EQ);
}

OP(cap)
{
    return replay_stream_is(a[0]) ? (int)cuStreamBeginCapture_v2(
                                        replay_stream(a[0]), (CUstreamCaptureMode)a[1])
                                  : NO_OBJECT;
}

OP(cape)
{
    CUgraph graph = NULL;
    CUresult r;

    if (!replay_stream_is(a[0]))
        return NO_OBJECT;
    r = cuStreamEndCapture(replay_stream(a[0]), &graph);
    replay_say(" %d", graph != NULL);
    if (graph) {
        replay_own(REPLAY_GRAPH, a[1]);
        rp.graphs[a[1]] = graph;
    }
    return (int)r;
}

const struct replay_op replay_stream_ops[] = {
    NAMED(st),  NAMED(std), NAMED(sts),  NAMED(stq),   NAMED(sti),
    NAMED(ev),  NAMED(evd), NAMED(evr),  NAMED(evs),   NAMED(evq),
    NAMED(evw), NAMED(hfn), NAMED(hwr),  NAMED(cb),    NAMED(log),
    NAMED(stv), NAMED(cap), NAMED(cape), {NULL, NULL},
};
