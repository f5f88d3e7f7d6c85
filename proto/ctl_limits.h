/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caps of the control plane (control.proto), shared by both ends.
 *
 * Constants only.  The receiver checks them; the sender stays below.
 */
#ifndef CTL_LIMITS_H
#define CTL_LIMITS_H

#define CTL_MAJOR 1

/* A server's: 64 cards and 4096 running sessions are about 300 KiB. */
#define CTL_REQUEST_MAX (512u * 1024)
/* A client's; an open with every string at its cap is under 2 KiB. */
#define CTL_CLIENT_REQUEST_MAX (16u * 1024)
/* A status of 10,000 sessions is about 3 MiB. */
#define CTL_REPLY_MAX (64u * 1024 * 1024)

#define CTL_NAME_MAX 64 /* names of servers, sessions; with the NUL */
#define CTL_OWNER_MAX 128
/* Owners of sessions that Kubernetes' claims and pods have begin so.  Such a session is
 * found by its owner, so only who may end any session opens one. */
#define CTL_OWNER_KUBE "kube:"
#define CTL_ENDPOINT_MAX 288 /* a DNS name (253), brackets, port */
#define CTL_RDMA_MAX 768     /* sixteen addresses with commas between */
#define CTL_WORD_MAX 128     /* version, driver, program, card name */
#define CTL_TOKEN_MAX 256
#define CTL_LEASE_KEY_SIZE 16
#define CTL_SERVER_CARDS_MAX 64
#define CTL_SERVER_SESSIONS_MAX 4096
#define CTL_REASONS_MAX 64
#define CTL_SLICES_PER_CARD_MAX 16

/* Sessions of a CtlRenewMany: with 36 bytes for each they fit into a client's request,
 * and their answer, with tickets for all, is under half a MiB and 20 ms of signatures.
 */
#define CTL_RENEW_MAX 450

/* Sessions of a CtlOpenMany: with an owner, a program, a node and a card of Kubernetes
 * each, 450 bytes, they fit into a client's request.  Pods have one to four. */
#define CTL_OPEN_MANY_MAX 24

/* Rows of a CtlList: a millisecond or two of the scheduler's time. */
#define CTL_LIST_MAX 500
#define CTL_LIST_DEFAULT 100
#define CTL_LIST_NEXT_MAX 64 /* of CtlList.next, with the NUL */

/* Of the scheduler's Unix socket, in its --state-dir. */
#define SCHED_SOCKET_NAME "scheduler.sock"

#define CTL_DEFAULT_PORT 7480 /* of the scheduler; servers listen on 7481 */

#endif
