/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_reload.h"

#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_notify.h"
#include "gp_option.h"
#include "srv.h"
#include "srv_pin.h"
#include "srv_register.h"
#include "ticket_keys.h"

#include <errno.h>
#include <string.h>

/* What was read, until all of it is. */
struct change {
    struct srv_conf *before;
    struct ticket_keys *keys; /* those of before, once others are in use */
    struct srv_rates rates;
    struct gp_option_changes options;
};

static void
change_fini(struct change *c)
{
    free(c->before);
    ticket_keys_free(c->keys);
    srv_rates_fini(&c->rates);
}

static int
read_options(struct srv *srv, struct change *c, struct gp_err *err)
{
    struct srv_conf *conf = &srv->conf;
    int r;

    c->before = malloc(sizeof(*c->before));
    if (!c->before)
        return -ENOMEM;
    *c->before = *conf;
    r = srv_conf_reread(conf, srv->argc, srv->argv, &c->options, err);
    return r < 0 ? r
                 : srv_rates_init(&c->rates, conf->rate_connections,
                                  conf->rate_attaches, conf->rate_refusals);
}

static bool
same_rates(const struct srv_conf *a, const struct srv_conf *b)
{
    return a->rate_connections == b->rate_connections &&
           a->rate_attaches == b->rate_attaches && a->rate_refusals == b->rate_refusals;
}

/* Those of before are kept: the token is read with the new ones in use. */
static int
read_keys(struct srv *srv, struct change *c, struct gp_err *err)
{
    int r;

    c->keys = srv->keys;
    srv->keys = NULL;
    r = srv_pin_load(srv, err);
    if (!srv->keys)
        srv->keys = TAKE_PTR(c->keys); /* a fault, or no file */
    return r;
}

static void
restore(struct srv *srv, struct change *c)
{
    if (c->before)
        srv->conf = *c->before;
    if (!c->keys)
        return;
    ticket_keys_free(srv->keys);
    srv->keys = TAKE_PTR(c->keys);
}

/* The audit log comes first: when its file was renamed for rotation, events must go to
 * the new one whatever fault the other files have.  The paths of the token and the keys
 * are options, so those come next. */
static int
read_all(struct srv *srv, struct change *c, struct gp_err *err)
{
    int r = gp_audit_reopen(err);

    if (r == 0)
        r = read_options(srv, c, err);
    if (r == 0)
        r = read_keys(srv, c, err);
    if (r == 0)
        r = srv_register_reload(srv->reg, err);
    if (r < 0)
        restore(srv, c);
    return r;
}

void
srv_reload(struct srv *srv)
{
    CLEANUP(change_fini) struct change c = {0};
    struct gp_err err = {0};
    int r;

    gp_notify("STATUS=reading options, token and keys again");
    r = gp_log_reopen();
    if (r < 0)
        gp_log_error("server", "the log's file is not opened anew: %s", strerror(-r));
    r = read_all(srv, &c, &err);
    gp_notify("STATUS=");
    if (r < 0) {
        gp_log_error("server", "options, token and key stay as they were: %s",
                     gp_err_msg(&err, r));
        return;
    }
    if (*c.options.live)
        gp_log_info("server", "changed: %s", c.options.live);
    if (*c.options.fixed)
        gp_log_warn("server", "changed, but needs a restart: %s", c.options.fixed);
    if (!same_rates(c.before, &srv->conf)) {
        srv_rates_fini(&srv->rates);
        srv->rates = c.rates;
        c.rates = (struct srv_rates){0};
    }
    gp_audit("reload", NULL);
    gp_log_info("server", "options, token and key were read again");
}
