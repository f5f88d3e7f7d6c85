/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How sessions end, and what a server leaves behind that is not connected any more.
 *
 * Event loop thread only.
 */
#ifndef SCHED_ENDING_H
#define SCHED_ENDING_H

#include "sched_types.h"

/* End a session: tell its servers, answer its holder's close when the workers are gone.
 * @words say why.  The session may be freed when this returns. */
void sched_session_end(struct sched *sched, struct sched_session *session,
                       const char *words);
/* The workers of @part are gone; when it was the last one, everything is given back and
 * the session freed. */
void sched_session_gone(struct sched *sched, struct sched_part *part);
/* @server has lost its connection. */
void sched_server_lost(struct sched *sched, struct sched_server *server,
                       const char *words);
unsigned sched_servers_alive(const struct sched *sched);
/* May a server come back in a moment that this scheduler has just lost, or has not seen
 * since it was started or began to lead (config.server_return_ms)?  What fits nowhere
 * may fit then. */
bool sched_servers_expected(const struct sched *sched, uint64_t now);
/* For sched->commit.orphaned. */
void sched_session_orphaned(struct sched *sched, struct sched_session *session);

#endif
