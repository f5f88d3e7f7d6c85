/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of features: what they do around calls, waits, payloads, unsolicited messages
 * and the end of contexts.
 *
 * A feature is one constant of type struct stub_feature, defined beside its code.
 * stub_features.c lists all of them, in the order in which their hooks run.  The code
 * that sends and waits calls the functions below and names no feature.
 *
 * A hook that has to run in every call is announced by a bit in the attention word of
 * the links (stub_link.h); while no bit is set, hooks cost a call nothing.  No object,
 * no thread of its own: everything runs in the calling thread.
 *
 * Calls that a hook makes are the library's own (stub_tls_relax()): no capture of the
 * program forbids them, nor do they make one invalid.
 */
#ifndef STUB_HOOKS_H
#define STUB_HOOKS_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stub_ctx;
struct stub_link;
struct wire_rep;

/* Takes one kind of unsolicited message.  It runs in whichever thread reads the
 * connection, so it neither blocks nor runs code of the application.  NULL, or why the
 * link must end. */
struct stub_unsolicited {
    uint16_t kind; /* WIRE_EVENT_*; 0 ends the list */
    const char *(*take)(struct stub_link *link, const struct wire_rep *message);
};

/* Everything may be NULL but the name. */
struct stub_feature {
    const char *name;

    /* STUB_ATTEND_CALL.  A call is about to be made, no lock is held. */
    void (*before_call)(uint16_t call);
    /* STUB_ATTEND_CALL.  It was made and waited for: what the program sees of it. */
    CUresult (*after_wait)(uint16_t call, CUresult result);
    /* STUB_ATTEND_CALL.  The program has waited for @stream, successfully; what the
     * wait returns. */
    CUresult (*stream_waited)(uint64_t stream);
    /* STUB_ATTEND_CALL.  A host function in a stream of @link begins and has returned;
     * the second always follows the first. */
    void (*hostfn_begin)(struct stub_link *link);
    void (*hostfn_end)(struct stub_link *link);
    /* STUB_ATTEND_CALL.  A frame of this thread has its place in the order of @link's
     * frames: it is the @seq-th.  Under send. */
    void (*placed)(struct stub_link *link, uint32_t seq);
    /* STUB_ATTEND_FLAGS. Flags of a frame that this thread sends.  Under send. */
    uint16_t (*frame_flags)(void);
    /* STUB_ATTEND_CONTENT. True if these bytes name something that the server must
     * be given before it reads them.  Under send. */
    bool (*needs)(const void *bytes, size_t n);
    /* The same, of bytes that it copies to @to in the same pass: false if `needs` would
     * find nothing there.  Of one feature.  Under send. */
    bool (*copy_needs)(void *to, const void *bytes, size_t n);
    /* Gives the server what `needs` has found.  No lock is held; calls may be made. */
    void (*provide)(void);
    /* STUB_ATTEND_REPLY or STUB_ATTEND_FLAGS, whichever are in @attention.  True if a
     * call that is normally posted is to be waited for.  Under send. */
    bool (*wants_reply)(uint32_t attention, uint16_t call);

    /* STUB_ATTEND_SPARE.  A call is about to be made to @link, no lock is held.  An
     * error is what the call returns instead. */
    CUresult (*spare_before)(struct stub_link *link, uint16_t call);
    /* STUB_ATTEND_SPARE.  The frame that names a spare block is the one that frees it.
     * Under send. */
    bool (*spare_is_freed)(void);
    /* The frame of @call to @link names a spare block, and is sent when this returns.
     * No lock is held; calls may be made.  An error is what the call returns instead.
     */
    CUresult (*spare_named)(struct stub_link *link, uint16_t call);

    /* A call to @link has returned @result, which is not success. */
    void (*call_failed)(struct stub_link *link, CUresult result);
    /* A payload has gone over the link, either way; while link->count_payloads. */
    void (*payload_moved)(struct stub_link *link, uint64_t bytes);
    /* The connection goes on over another socket.  No call may be made, nor waited for.
     */
    void (*replaced)(struct stub_link *link);
    /* Messages to us have been unread for a while.  Called by the flusher. */
    void (*unread)(struct stub_link *link);
    /* [addr, addr + len) of host memory is about to be read, changed or given back:
     * returns when nothing is in flight to it. */
    void (*drain)(const void *addr, uint64_t len);
    /* Returns when the first @arrived asynchronous copies to the host that the worker
     * has sent over this link have arrived, or the link is dead. */
    void (*await_arrived)(struct stub_link *link, uint32_t arrived);
    /* The driver has destroyed the context, which is no longer alive. */
    void (*ctx_end)(struct stub_ctx *ctx);

    const struct stub_unsolicited *unsolicited;
};

/* NULL ends the list.  Defined in stub_features.c, above every feature. */
extern const struct stub_feature *const stub_features[];

/* Each runs the hook of every feature that has it, in order. */
void stub_hooks_before_call(uint16_t call);
CUresult stub_hooks_after_wait(uint16_t call, CUresult result);
CUresult stub_hooks_stream_waited(uint64_t stream);
void stub_hooks_hostfn_begin(struct stub_link *link);
void stub_hooks_hostfn_end(struct stub_link *link);
void stub_hooks_placed(struct stub_link *link, uint32_t seq);
uint16_t stub_hooks_frame_flags(void);
bool stub_hooks_needs(const void *bytes, size_t n);
bool stub_hooks_copy_needs(void *to, const void *bytes, size_t n);
void stub_hooks_provide(void);
bool stub_hooks_wants_reply(uint32_t attention, uint16_t call);
CUresult stub_hooks_spare_before(struct stub_link *link, uint16_t call);
bool stub_hooks_spare_is_freed(void);
CUresult stub_hooks_spare_named(struct stub_link *link, uint16_t call);
void stub_hooks_call_failed(struct stub_link *link, CUresult result);
void stub_hooks_payload_moved(struct stub_link *link, uint64_t bytes);
void stub_hooks_replaced(struct stub_link *link);
void stub_hooks_unread(struct stub_link *link);
void stub_hooks_drain(const void *addr, uint64_t len);
void stub_hooks_drain_all(void); /* all of the process's memory */
void stub_hooks_await_arrived(struct stub_link *link, uint32_t arrived);
void stub_hooks_ctx_end(struct stub_ctx *ctx);

/* The feature's entry for this kind of message; NULL: no feature takes it. */
const struct stub_unsolicited *stub_hooks_unsolicited(uint16_t kind);

#endif
