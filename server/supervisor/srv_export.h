/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that processes of a session share by descriptor: physical memory and memory
 * pools that one of them has exported, and memory that a driver opens by name.
 *
 * The driver's descriptor stays here, under a token that cannot be guessed; the client
 * gets the token; that of a name is made of the name.  A worker of the same session
 * that presents it gets the descriptor; objects of other sessions are never searched.
 * An object lives as long as a worker holds it: the exporter while it has the memory or
 * its client a descriptor of it, an importer while it has the memory.
 *
 * One holder is charged for memory, in its worker slot.  That is the exporter,
 * which counts and gives back by itself; if it drops the object before others, the
 * bytes are moved here from slot to slot, so that memory is always charged to one.
 *
 * Owned by a struct srv_session; event-loop thread only.
 */
#ifndef SRV_EXPORT_H
#define SRV_EXPORT_H

#include "gp_base.h"
#include "wrk_request.h"
#include "wrk_segment.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct srv_session;
struct srv_export;

/* Objects that a session may share at a time: a whole card of 80 GiB in the pieces of
 * 20 MiB that allocators with growing segments make are 4096.  Each costs a descriptor
 * and a KiB. */
#define SRV_SHARES_MAX 4096u
/* All objects of a server hold a quarter of the descriptors that it may have open, the
 * rest being for sessions and connections; one session holds at most a quarter of that,
 * and the sessions of an owner half. */
#define SRV_SHARES_FILES 4u
#define SRV_SHARES_SESSION (4u * SRV_SHARES_FILES)
#define SRV_SHARES_OWNER (2u * SRV_SHARES_FILES)

/* Keep @fd, which is ours from here on, as the worker on @slot asks; @ask then holds
 * the token.  -EDQUOT: too many, the words say of whom and what helps.  -EEXIST: one of
 * that name is here.  -EIO, -ENOMEM. */
int srv_export_new(struct srv_session *s, uint32_t slot, struct wrk_request *ask,
                   int fd, struct gp_err *err);

/* The object whose token is in @ask, which becomes the reply: its descriptor, which
 * stays ours, or -1.  The worker on @slot holds it once more. */
int srv_export_find(struct srv_session *s, uint32_t slot, struct wrk_request *ask);

/* The worker on @slot holds it once less. */
void srv_export_drop(struct srv_session *s, uint32_t slot,
                     const struct wrk_request *ask);

/* The worker on @slot is gone, and its slot cleared. */
void srv_export_leave(struct srv_session *s, uint32_t slot);

/* The session ends: shares, and the table of IPC handles, which a successor that is
 * about to come keeps. */
void srv_export_free_all(struct srv_session *s);

/* After a supervisor that is gone: the session's table, whose descriptor stays the
 * caller's; object @number of it, which takes @fd on success; and, when the workers
 * have been adopted, the end of what belonged to slots that are not @here. */
int srv_export_adopt_table(struct srv_session *s, int fd);
int srv_export_adopt(struct srv_session *s, uint64_t number, int fd);
void srv_export_mend(struct srv_session *s, const bool here[WRK_SLOTS_MAX]);

#endif
