/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_pin.h"

#include "gp_audit.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"
#include "srv.h"
#include "ticket_keys.h"

#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <string.h>

static char *
pin_path(const struct srv *srv)
{
    return gp_str_printf("%s/scheduler-key.pub", srv->conf.state_dir);
}

int
srv_pin_load(struct srv *srv, struct gp_err *err)
{
    CLEANUP_FREE char *kept = pin_path(srv);
    const char *path = srv->conf.key_file[0] ? srv->conf.key_file : kept;
    struct ticket_keys *keys;
    int r;

    if (!kept)
        return -ENOMEM;
    if (path == kept && (!srv->conf.state_dir[0] || access(kept, F_OK) < 0))
        return 0;
    r = ticket_keys_load(path, &keys, err);
    if (r < 0)
        return r;
    ticket_keys_free(srv->keys);
    srv->keys = keys;
    return 0;
}

static int
refuse(const struct srv *srv, const struct ticket_key *key, struct gp_err *err)
{
    const char *remedy = "restart this server";
    CLEANUP_FREE char *path = NULL;

    if (srv->conf.key_file[0])
        remedy = "add its new key to the file of --scheduler-key and send SIGHUP";
    else if (srv->conf.state_dir[0]) {
        path = gp_str_printf("remove %s/scheduler-key.pub and restart this server",
                             srv->conf.state_dir);
        remedy = path ? path : remedy;
    }
    return gp_err_set(err, -EKEYREJECTED,
                      "ITS KEY IS NOT THE SCHEDULER'S: %s instead of %s; somebody may "
                      "pose as the scheduler; if it was set up anew, %s",
                      ticket_key_id(key), ticket_key_id(ticket_keys_first(srv->keys)),
                      remedy);
}

/* Write @text, the keys that are trusted now, into the state directory. */
static int
keep(const struct srv *srv, const char *text, struct gp_err *err)
{
    CLEANUP_FREE char *path = pin_path(srv);
    int r;

    if (!path)
        return -ENOMEM;
    r = gp_file_mkdirs(srv->conf.state_dir, 0700, err);
    if (!r)
        r = gp_file_replace(path, text, strlen(text), 0644, err);
    if (!r)
        gp_log_info("server", "the scheduler's keys are kept in %s", path);
    return r;
}

/* From now on these are the scheduler's keys. */
static int
trust(struct srv *srv, const char *text, struct gp_err *err)
{
    struct ticket_keys *keys;
    int r = ticket_keys_parse(text, &keys, err);

    if (r < 0)
        return r;
    r = srv->conf.state_dir[0] ? keep(srv, text, err) : 0;
    if (r < 0) {
        ticket_keys_free(keys);
        return r;
    }
    ticket_keys_free(srv->keys);
    srv->keys = keys;
    gp_audit("key", "key", ticket_key_id(ticket_keys_first(keys)), NULL);
    return 0;
}

int
srv_pin_check(const struct srv *srv, const uint8_t *raw, size_t size,
              struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    int r = ticket_key_from_pub(raw, size, &key, err);

    if (r < 0)
        return r;
    return srv->keys && !ticket_keys_have(srv->keys, raw) ? refuse(srv, key, err) : 0;
}

int
srv_pin_take(struct srv *srv, const uint8_t *raw, size_t size, struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;
    int r = srv_pin_check(srv, raw, size, err);

    if (r < 0 || srv->keys)
        return r;
    text = gp_b64_encode(raw, size);
    if (!text)
        return -ENOMEM;
    if (!srv->conf.state_dir[0])
        gp_log_warn("server",
                    "the scheduler's key %s is trusted until this server ends; "
                    "--state-dir keeps it, --scheduler-key names it",
                    text);
    return trust(srv, text, err);
}

/* A line for each key. */
static int
keys_text(const ProtobufCBinaryData *keys, size_t n, char text[TICKET_KEYS_TEXT_MAX],
          struct gp_err *err)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < n && i < TICKET_KEYS_MAX; i++) {
        CLEANUP_FREE char *one = NULL;

        if (keys[i].len != TICKET_PUB_SIZE)
            return gp_err_set(err, -EBADMSG, "a key of %zu bytes", keys[i].len);
        one = gp_b64_encode(keys[i].data, keys[i].len);
        if (!one)
            return -ENOMEM;
        len += (size_t)snprintf(text + len, TICKET_KEYS_TEXT_MAX - len, "%s\n", one);
    }
    return 0;
}

int
srv_pin_follow(struct srv *srv, const ProtobufCBinaryData *keys, size_t n,
               struct gp_err *err)
{
    char text[TICKET_KEYS_TEXT_MAX];
    bool same = srv->keys && n == ticket_keys_count(srv->keys);
    int r;

    for (size_t i = 0; same && i < n; i++)
        same =
            keys[i].len == TICKET_PUB_SIZE && ticket_keys_have(srv->keys, keys[i].data);
    if (same || !n)
        return 0;
    if (srv->conf.key_file[0]) {
        for (size_t i = 0; i < n; i++)
            if (keys[i].len != TICKET_PUB_SIZE ||
                !ticket_keys_have(srv->keys, keys[i].data))
                return gp_err_set(err, -EKEYREJECTED,
                                  "the scheduler changes its key: add the new one to "
                                  "%s and send SIGHUP, or its tickets are refused here",
                                  srv->conf.key_file);
        return 0;
    }
    r = keys_text(keys, n, text, err);
    return r < 0 ? r : trust(srv, text, err);
}
