/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_pin.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"
#include "srv.h"
#include "ticket_key.h"

#include <errno.h>
#include <string.h>

static char *
pin_path(const struct srv *srv)
{
    return gp_str_printf("%s/scheduler-key.pub", srv->conf.state_dir);
}

int
srv_pin_load(struct srv *srv, struct gp_err *err)
{
    CLEANUP_FREE char *path = pin_path(srv);

    if (!path)
        return -ENOMEM;
    return access(path, F_OK) ? 0 : ticket_key_load_pub(path, &srv->key, err);
}

static int
refuse(const struct srv *srv, const struct ticket_key *key, struct gp_err *err)
{
    const char *remedy = "restart this server";
    CLEANUP_FREE char *path = NULL;

    if (srv->conf.key_file[0])
        remedy = "give --scheduler-key its new key";
    else if (srv->conf.state_dir[0]) {
        path = gp_str_printf("remove %s/scheduler-key.pub and restart this server",
                             srv->conf.state_dir);
        remedy = path ? path : remedy;
    }
    return gp_err_set(err, -EKEYREJECTED,
                      "ITS KEY IS NOT THE SCHEDULER'S: %s instead of %s; somebody may "
                      "pose as the scheduler; if it was set up anew, %s",
                      ticket_key_id(key), ticket_key_id(srv->key), remedy);
}

static int
keep(const struct srv *srv, const struct ticket_key *key, struct gp_err *err)
{
    CLEANUP_FREE char *path = pin_path(srv);
    int r;

    if (!srv->conf.state_dir[0]) {
        gp_log_warn("server",
                    "the scheduler's key %s is trusted until this server ends; "
                    "--state-dir keeps it, --scheduler-key names it",
                    ticket_key_id(key));
        return 0;
    }
    if (!path)
        return -ENOMEM;
    r = gp_file_mkdirs(srv->conf.state_dir, 0700, err);
    if (!r)
        r = ticket_key_save_pub(key, path, err);
    if (!r)
        gp_log_info("server", "the scheduler's key %s is kept in %s",
                    ticket_key_id(key), path);
    return r;
}

int
srv_pin_check(const struct srv *srv, const uint8_t *raw, size_t size,
              struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    int r = ticket_key_from_pub(raw, size, &key, err);

    if (r < 0)
        return r;
    return srv->key && memcmp(ticket_key_pub(key), ticket_key_pub(srv->key),
                              TICKET_PUB_SIZE) != 0
               ? refuse(srv, key, err)
               : 0;
}

int
srv_pin_take(struct srv *srv, const uint8_t *raw, size_t size, struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    int r = ticket_key_from_pub(raw, size, &key, err);

    if (r < 0)
        return r;
    if (srv->key)
        return srv_pin_check(srv, raw, size, err);
    r = keep(srv, key, err);
    if (r < 0)
        return r;
    srv->key = TAKE_PTR(key);
    return 0;
}
