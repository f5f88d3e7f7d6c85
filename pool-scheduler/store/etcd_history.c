/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_history.h"

#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <string.h>

void
etcd_history_see(struct etcd_history *history, const json_t *kv)
{
    size_t size = 0;
    CLEANUP_FREE uint8_t *value =
        kv ? etcd_bytes_read(json_object_get(kv, "value"), &size) : NULL;

    *history = (struct etcd_history){0};
    if (!value)
        return;
    history->mod_revision = etcd_number(kv, "mod_revision");
    gp_str_copy(history->value, sizeof(history->value), (const char *)value);
}

int
etcd_history_check(const struct etcd_history *history, struct etcd_http *http,
                   const char *fence_key, int64_t revision, unsigned timeout_ms,
                   struct gp_err *err)
{
    struct etcd_history there;
    struct gp_err why = {0};
    json_t *reply = NULL;
    int r = etcd_http_call(http, "/v3/kv/range",
                           json_pack("{s:o,s:I}", "key", etcd_key(http, fence_key),
                                     "revision", (json_int_t)revision),
                           timeout_ms, &reply, &why);

    if (r == -EREMOTE && strstr(why.msg, "future revision"))
        return gp_err_set(err, -ESTALE,
                          "etcd's revision went back: a snapshot was restored, or it "
                          "was emptied");
    if (r == -EREMOTE && strstr(why.msg, "compacted"))
        return gp_err_set(err, -ESTALE,
                          "changes were missed that etcd has compacted meanwhile");
    if (r < 0)
        return gp_err_set(err, r, "%s", gp_err_msg(&why, r));
    etcd_history_see(&there, json_array_get(json_object_get(reply, "kvs"), 0));
    json_decref(reply);
    if (there.mod_revision != history->mod_revision ||
        strcmp(there.value, history->value) != 0)
        return gp_err_set(err, -ESTALE,
                          "etcd's history is another one: a snapshot was restored");
    return 0;
}
