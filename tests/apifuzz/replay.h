/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that a program of the fuzzer can make, and the objects that it has.
 *
 * Objects are named by small numbers.  An object belongs to the context that was
 * current when it was made, and is forgotten with it.  Threads that run at the same
 * time use objects of their own (generate.py), so nothing here is locked but what
 * they share: the module of a context.
 *
 * Knows CUDA and nothing of gpupool.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "cuda_api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef long long num;

#define NO_OBJECT (-1) /* a call on what was never made */

#define REPLAY_SLOTS 32
#define REPLAY_LOG_MAX 4096u

struct replay_op {
    const char *name;
    int (*run)(const num *a); /* the CUresult, or NO_OBJECT */
};

/* Each ended by a NULL. */
extern const struct replay_op replay_context_ops[], replay_stream_ops[],
    replay_memory_ops[], replay_array_ops[], replay_graph_ops[], replay_mapped_ops[];

#define OP(name) static int op_##name(const num *a)
#define NAMED(name)                                                                    \
    {                                                                                  \
#name, op_##name                                                               \
    }

enum replay_kind {
    REPLAY_STREAM,
    REPLAY_EVENT,
    REPLAY_DEV,
    REPLAY_HOST,
    REPLAY_ARRAY,
    REPLAY_GRAPH,
    REPLAY_EXEC,
    REPLAY_NODE,
    REPLAY_KINDS,
};

struct replay_dev {
    CUdeviceptr at;
    size_t size;
};

struct replay_host {
    uint8_t *at;
    size_t size;
    bool locked; /* by cuMemHostAlloc; else memory of the program */
};

/* Device memory that is mapped by hand; it belongs to no context. */
struct replay_vm {
    CUdeviceptr at;
    size_t size;
    CUmemGenericAllocationHandle handle;
    bool mapped;
};

/* What the functions of one log were given, in the order in which they ran. */
struct replay_log {
    _Atomic uint32_t n;
    uint32_t value[REPLAY_LOG_MAX];
};

enum replay_kernel {
    REPLAY_STEP,
    REPLAY_MIX,
    REPLAY_IDLE,
    REPLAY_KERNELS,
};

struct replay {
    CUcontext ctxs[REPLAY_SLOTS];
    int retained[REPLAY_SLOTS];     /* by card: how often its primary context was */
    CUmodule modules[REPLAY_SLOTS]; /* by context */
    CUfunction kernels[REPLAY_SLOTS][REPLAY_KERNELS];
    int owner[REPLAY_KINDS][REPLAY_SLOTS]; /* the number of a context */
    CUstream streams[REPLAY_SLOTS];
    CUevent events[REPLAY_SLOTS];
    struct replay_dev devs[REPLAY_SLOTS];
    struct replay_vm vms[REPLAY_SLOTS]; /* by number of the memory */
    CUmemoryPool pools[REPLAY_SLOTS];
    struct replay_host hosts[REPLAY_SLOTS];
    CUarray arrays[REPLAY_SLOTS];
    CUgraph graphs[REPLAY_SLOTS];
    CUgraphExec execs[REPLAY_SLOTS];
    CUgraphNode nodes[REPLAY_SLOTS];
    struct replay_log logs[REPLAY_SLOTS];
    /* After each call, one that is always answered and changes nothing: the error of a
     * call that a driver reports later comes with the call that it is of. */
    bool settling;
    /* Streams that were destroyed, and what went with its context, keep their handles,
     * for calls that must be refused. */
    bool keeping;
};

extern struct replay rp;

/* What the calling thread's call says besides its result. */
extern _Thread_local char replay_out[256];
void replay_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The driver's number of a card. */
CUdevice replay_card(num number);
/* The number of the calling thread's current context, or NO_OBJECT. */
int replay_ctx(void);
/* The object of that number belongs to the current context. */
void replay_own(enum replay_kind kind, num number);

/* A kernel of the current context, or NULL. */
CUfunction replay_kernel(enum replay_kernel kernel);

/* The stream of a number: -1 is the default one, and the call without a stream. */
CUstream replay_stream(num number);
bool replay_stream_is(num number);

bool replay_host_has(num host, num off, num n);
uint32_t replay_hash(const uint8_t *p, size_t n);

/* A host function, and an argument for it; never freed: a graph may run it any time.
 */
void replay_function(void *arg);
void *replay_argument(num log, num value);

/* Fill @size bytes with what @seed says. */
void replay_fill(uint8_t *at, size_t size, num seed);

/* cuInit, and the threads: once in a process.  0, or the CUresult, which is printed. */
int replay_start(void);
/* Whether every line was a call.  @at_once: each prints before the next is made. */
bool replay_program(FILE *program, bool at_once);
bool replay_serve(void);
/* All of it for one program; what main() returns (as_c.py). */
int replay_text(const char *text);

/* Between two programs.  The calling thread has no context left; then, by one thread,
 * nothing of the program is left. */
void replay_leave_contexts(void);
void replay_reset(void);
void replay_give_back(void); /* memory of the program */
void replay_drop_mapped(void);

#endif
