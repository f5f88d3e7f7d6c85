/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions: functions of the application that run in stream order, in this
 * process.
 *
 * One thread of the stub per link runs them all, in the order in which the worker
 * reports them due.  It exists from the first registration on.  While functions are
 * outstanding it also reads the connection when no other thread does.
 */
#ifndef STUB_HOSTFN_H
#define STUB_HOSTFN_H

#include "cuda_abi.h"
#include "wire_format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stub_feature;
struct wire_event_callback;

/* More host functions than this in flight are refused; a server that holds them back
 * would let a program that queues without end eat all memory. */
#define STUB_HOSTFN_MAX WIRE_HOST_FUNCS_MAX

/* Register a function; returns its token (0: none can be had). Exactly one of the
 * two function pointers is set.  @keep: it stays until stub_hostfn_forget(), for
 * graph nodes run repeatedly; else it is removed when the worker reports the last
 * run. */
uint64_t stub_hostfn_add(CUhostFn fn, CUstreamCallback callback, CUstream stream,
                         void *user, bool keep);

/* The same for a function of this library, which writes no memory of the program but
 * that of copies. */
uint64_t stub_hostfn_add_own(CUhostFn fn, void *user, bool keep);

/* Functions of the program that may yet run, or do. */
extern _Atomic uint32_t stub_hostfn_of_program;

/* The function of @token will not be run any more; an unknown token is ignored. */
void stub_hostfn_forget(uint64_t token);

/* Have @gone called when the worker has given the token back: it was @node's. */
typedef void stub_hostfn_gone_fn(uint64_t node, uint64_t token);
void stub_hostfn_tie(uint64_t token, uint64_t node, stub_hostfn_gone_fn *gone);

/* Called when a message with that token comes.  @words has event->len bytes and a
 * zero, which the callee may overwrite. */
typedef void stub_notice_fn(uint64_t token, void *what,
                            const struct wire_event_callback *event, char *words);

/* In a host function: which run of it this is, for the worker (wire_format.h). */
uint64_t stub_hostfn_ticket(void);

/* Remember @what, from malloc(), which is the table's then; its token, 0: none. */
uint64_t stub_hostfn_add_notice(stub_notice_fn *run, void *what);
/* What was given for that token with that function; NULL: nothing. */
void *stub_hostfn_notice(uint64_t token, stub_notice_fn *run);
/* Forget and free it; nobody is in it then, unless that is the caller. */
void stub_hostfn_drop_notice(uint64_t token);
/* Takes the worker's messages about them (stub_hooks.h). */
extern const struct stub_feature stub_hostfn_feature;

#endif
