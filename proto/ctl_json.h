/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler says of its pool, as JSON: the same for `gpupool --json` and for
 * the scheduler's HTTP API.
 *
 * The keys are an interface: they are only added to (docs/openapi.json describes them).
 * Every function returns a new object, or NULL when memory is short.  No state, any
 * thread.  Who uses it links -ljansson.
 */
#ifndef CTL_JSON_H
#define CTL_JSON_H

#include "control.pb-c.h"

#include <jansson.h>

/* A server with its cards. */
json_t *ctl_json_server(const Gpupool__Ctl__CtlServerStatus *server);
/* A card with the name of its server, and, if @list is not NULL, the parts of it that
 * the list's sessions have. */
json_t *ctl_json_card(const Gpupool__Ctl__CtlServerStatus *server,
                      const Gpupool__Ctl__CtlCardStatus *card,
                      const Gpupool__Ctl__CtlListReply *list);
json_t *ctl_json_session(const Gpupool__Ctl__CtlSessionStatus *session);
json_t *ctl_json_reservation(const Gpupool__Ctl__CtlReservation *reservation,
                             uint64_t unix_s);
json_t *ctl_json_waiter(const Gpupool__Ctl__CtlWaiter *waiter);
json_t *ctl_json_tenant(const Gpupool__Ctl__CtlTenantUse *tenant);
json_t *ctl_json_event(const Gpupool__Ctl__CtlEvent *event);
json_t *ctl_json_sample(const Gpupool__Ctl__CtlSample *sample);
json_t *ctl_json_other_pool(const Gpupool__Ctl__CtlOtherPool *pool);
json_t *ctl_json_account(const Gpupool__Ctl__CtlAccount *account);
json_t *ctl_json_pool(const Gpupool__Ctl__CtlPoolStatus *pool);

/* Words for states and policies, as in JSON and tables. */
const char *ctl_server_state(Gpupool__Ctl__CtlServerState state);
const char *ctl_session_class(const Gpupool__Ctl__CtlSessionStatus *session);
/* planned, soon (its cards are chosen), now or over at @unix_s. */
const char *ctl_reservation_state(const Gpupool__Ctl__CtlReservation *reservation,
                                  uint64_t unix_s);
const char *ctl_session_state(const Gpupool__Ctl__CtlSessionStatus *session);
const char *ctl_placement_name(Gpupool__Ctl__CtlPlacement placement);

#endif
