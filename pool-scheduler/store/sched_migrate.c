/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool-scheduler migrate --from sqlite:PATH --to etcd:URLS */
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "sched_replica.h"
#include "store.h"
#include "store_etcd.h"
#include "store_sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The pool's tickets go on being signed with the key that its servers know. */
static int
move_key(const char *db, struct store *etcd, struct gp_err *err)
{
    const char *slash = strrchr(db, '/');
    CLEANUP_FREE char *path =
        gp_str_printf("%.*sticket-key.pem", slash ? (int)(slash - db + 1) : 0, db);
    CLEANUP_FREE char *key = NULL, *stored = NULL;
    size_t len;
    int r;

    if (!path)
        return -ENOMEM;
    r = gp_file_read(path, 4096, &key, &len, err);
    if (r < 0)
        return r;
    return etcd->ops->shared->put_once(etcd, "ticket-key", key, &stored, err);
}

static int
migrate(const char *db, const struct etcd_config *config, struct gp_err *err)
{
    struct store *from = NULL, *to = NULL;
    size_t n = 0;
    int r = access(db, R_OK) < 0
                ? gp_err_set(err, -errno, "%s: %s", db, strerror(errno))
                : store_sqlite_open(db, &from, err);

    if (!r)
        r = store_etcd_open(config, &to, err);
    if (!r)
        r = store_etcd_import(to, from, &n, err);
    if (!r)
        r = move_key(db, to, err);
    if (!r)
        printf("%zu records moved\n", n);
    if (from)
        from->ops->close(from);
    if (to)
        to->ops->close(to);
    return r;
}

struct request {
    const char *from, *to;
    struct etcd_config etcd;
};

/* A store: the text after its kind, which is the option's word. */
static int
set_store(void *target, const struct gp_option *option, const char *value,
          struct gp_err *err)
{
    size_t len = strlen(option->words[0]);

    if (strncmp(value, option->words[0], len) != 0)
        return gp_err_set(err, -EINVAL, "%s is wanted", option->value);
    return gp_option_text(target, option, value + len, err);
}

static int
parse(struct request *request, int argc, char **argv, struct gp_err *err)
{
    static const char *const from[] = {"sqlite:", NULL}, *const to[] = {"etcd:", NULL};
    static const struct gp_option own[] = {
        {.name = "from",
         .value = "sqlite:PATH",
         .help = "state file; the key beside it moves as well",
         .set = set_store,
         .words = from,
         .offset = offsetof(struct request, from)},
        {.name = "to",
         .value = "etcd:URL,...",
         .help = "members of an etcd that holds no pool under the prefix",
         .set = set_store,
         .words = to,
         .offset = offsetof(struct request, to)},
    };
    const struct gp_option_set_of sets[] = {{own, ARRAY_SIZE(own), request},
                                            etcd_config_options(&request->etcd)};
    const struct gp_options options = {
        .program = "gpupool-scheduler migrate",
        .about = "Move a pool from the embedded store of a stopped scheduler to etcd.",
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };
    int first, r = gp_options_parse(&options, argc, argv, &first, err);

    if (r)
        return r;
    if (!request->from || !request->to)
        return gp_err_set(err, -EINVAL,
                          "--from sqlite:PATH and --to etcd:URL,... are needed");
    request->etcd.urls = request->to;
    return 0;
}

int
sched_migrate(int argc, char **argv)
{
    struct request request = {.etcd = {.prefix = "/gpupool/"}};
    struct gp_err err = {0};
    int r = parse(&request, argc, argv, &err);

    if (!r)
        r = migrate(request.from, &request.etcd, &err);
    if (r < 0)
        fprintf(stderr, "gpupool-scheduler: migrate: %s\n", gp_err_msg(&err, r));
    return r < 0;
}
