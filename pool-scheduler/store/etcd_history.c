/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_history.h"

#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <string.h>

void
etcd_mark_see(struct etcd_mark *mark, const json_t *kv)
{
    size_t size = 0;
    CLEANUP_FREE uint8_t *value =
        kv ? etcd_bytes_read(json_object_get(kv, "value"), &size) : NULL;

    *mark = (struct etcd_mark){0};
    if (!value)
        return;
    mark->mod_revision = etcd_number(kv, "mod_revision");
    gp_str_copy(mark->value, sizeof(mark->value), (const char *)value);
}

static bool
is_same(const struct etcd_mark *a, const struct etcd_mark *b)
{
    return a->mod_revision == b->mod_revision && !strcmp(a->value, b->value);
}

/* The record of @key as of @revision, 0: of now; *ret_now is etcd's revision then. */
static int
read_mark(struct etcd_http *http, const char *key, int64_t revision,
          unsigned timeout_ms, struct etcd_mark *ret, int64_t *ret_now,
          struct gp_err *err)
{
    json_t *reply = NULL;
    int r = etcd_http_call(http, "/v3/kv/range",
                           json_pack("{s:o,s:I}", "key", etcd_key(http, key),
                                     "revision", (json_int_t)revision),
                           timeout_ms, &reply, err);

    if (r < 0)
        return r;
    etcd_mark_see(ret, json_array_get(json_object_get(reply, "kvs"), 0));
    *ret_now = etcd_number(json_object_get(reply, "header"), "revision");
    json_decref(reply);
    return 0;
}

/* Others use this etcd too, and it was compacted behind the pool's last change.  What
 * somebody changes by hand without the fence is missed here; the leader does not see it
 * either. */
static int
check_since(const struct etcd_history *h, struct etcd_http *http, int64_t *revision,
            unsigned timeout_ms, struct gp_err *err)
{
    struct etcd_mark fence, leader;
    int64_t now;
    int r = read_mark(http, h->fence_key, 0, timeout_ms, &fence, &now, err);

    if (!r) /* both of one moment, unless that is compacted by now */
        r = read_mark(http, h->leader_key, now, timeout_ms, &leader, &(int64_t){0},
                      err);
    if (r == -EREMOTE || (!r && (now < *revision || !is_same(&fence, &h->fence) ||
                                 !is_same(&leader, &h->leader))))
        return gp_err_set(err, -ESTALE,
                          "changes were missed that etcd has compacted meanwhile");
    if (!r)
        *revision = now;
    return r;
}

int
etcd_history_check(const struct etcd_history *history, struct etcd_http *http,
                   int64_t *revision, unsigned timeout_ms, struct gp_err *err)
{
    struct etcd_mark there;
    struct gp_err why = {0};
    int r = read_mark(http, history->fence_key, *revision, timeout_ms, &there,
                      &(int64_t){0}, &why);

    if (r == -EREMOTE && strstr(why.msg, "future revision"))
        return gp_err_set(err, -ESTALE,
                          "etcd's revision went back: a snapshot was restored, or it "
                          "was emptied");
    if (r == -EREMOTE && strstr(why.msg, "compacted"))
        return check_since(history, http, revision, timeout_ms, err);
    if (r < 0)
        return gp_err_set(err, r, "%s", gp_err_msg(&why, r));
    if (!is_same(&there, &history->fence))
        return gp_err_set(err, -ESTALE,
                          "etcd's history is another one: a snapshot was restored");
    return 0;
}
