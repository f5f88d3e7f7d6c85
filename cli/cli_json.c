/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_json.h"

#include "ctl_json.h"

#include <errno.h>
#include <stdio.h>

int
cli_json_print(const Gpupool__Ctl__CtlStatusReply *status)
{
    json_t *servers = json_array(), *sessions = json_array(), *root;
    int r;

    for (size_t i = 0; i < status->n_servers; i++)
        json_array_append_new(servers, ctl_json_server(status->servers[i]));
    for (size_t i = 0; i < status->n_sessions; i++)
        json_array_append_new(sessions, ctl_json_session(status->sessions[i]));
    root = json_pack("{s:s, s:I, s:s, s:I, s:I, s:s, s:o, s:o}", "version",
                     status->version, "up_ms", (json_int_t)status->up_ms, "placement",
                     ctl_placement_name(status->placement), "heartbeat_ms",
                     (json_int_t)status->heartbeat_ms, "lease_ms",
                     (json_int_t)status->lease_ms, "key_id", status->scheduler_key_id,
                     "servers", servers, "sessions", sessions);
    if (!root)
        return -ENOMEM;
    r = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(root);
    putchar('\n');
    return r < 0 ? -EIO : 0;
}
