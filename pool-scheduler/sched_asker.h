/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At the scheduler that leads: requests that another scheduler of the pool relays for
 * those who asked it (CtlAsker).
 *
 * That scheduler proves that it has the pool's ticket key, by a token that both derive
 * from it, over TLS as a client proves its token (ctl_proof.h).  Who has that key signs
 * tickets, so it is trusted with reads; it has checked that the asker may read. Checked
 * here again: that the request is a read, that the user whose token was shown has the
 * right to read, and the rate of the asker's address, which is counted as if it had
 * asked here.  A relayed request is never relayed again.
 *
 * Event loop thread only.
 */
#ifndef SCHED_ASKER_H
#define SCHED_ASKER_H

#include "control.pb-c.h"
#include "sched_types.h"

struct ticket_key;

/* 64 hexadecimal digits. */
#define SCHED_ASKER_TOKEN 65

/* What schedulers with this @key prove to each other.  -ENOKEY: no private half. */
int sched_asker_token(const struct ticket_key *key, char ret[SCHED_ASKER_TOKEN]);

/* Does @is_it hold for the token of a key of this pool?  Then @ret is that token, and
 * @conn is another scheduler of the pool. */
bool sched_asker_proves(struct sched_conn *conn,
                        bool (*is_it)(const char *text, void *arg), void *arg,
                        char ret[SCHED_ASKER_TOKEN]);

/* Is @req one of those that can be relayed? */
bool sched_asker_reads(const Gpupool__Ctl__CtlRequest *req);

/* May @req of @conn be answered, as far as it is relayed?  False: it is refused. */
bool sched_asker_admits(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req);

#endif
