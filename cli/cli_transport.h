/* SPDX-License-Identifier: Apache-2.0 */
/* Which transport a program here would take to a server; nothing is connected. */
#ifndef CLI_TRANSPORT_H
#define CLI_TRANSPORT_H

#include "cli_list.h"

#include <jansson.h>

struct gp_err;

/* The transport with the reasons against the others, as an object; NULL: out of memory.
 */
json_t *cli_transport_json(const Gpupool__Ctl__CtlServerStatus *server);
/* The same as text on stdout. */
void cli_transport_explain(const Gpupool__Ctl__CtlServerStatus *server);

/* What a program would go over to the server of that name, in words: 0, or -ESRCH when
 * the pool has no such server, or it is not reached at all. */
#define CLI_TRANSPORT_TEXT 160
int cli_transport_find(struct cli_list *list, const char *name,
                       char ret_words[CLI_TRANSPORT_TEXT]);

#endif
