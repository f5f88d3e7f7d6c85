/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledgements in front of calls: how much of a link's stream has been received.
 *
 * The worker keeps a copy of a short payload until it is acknowledged.  A program that
 * copies down again and again makes a call soon that can carry the acknowledgement. One
 * over the socket for them (xport_acks.h) has the worker wake for it, and comes so
 * seldom that the copies do not stay in a cache.
 *
 * The caller's own state; any thread.
 */
#ifndef STUB_RECEIVED_H
#define STUB_RECEIVED_H

#include <stdint.h>

struct stub_link;

/* Before a call that brings a payload and is waited for (stub_call_wait_into()): says
 * how much has been received if that is worth it.  What it said; 0: nothing.  It leaves
 * together with the call. */
uint64_t stub_received_say(struct stub_link *link);

#endif
