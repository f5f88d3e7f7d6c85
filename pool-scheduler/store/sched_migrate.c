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
#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char HELP[] =
    "Usage: gpupool-scheduler migrate --from sqlite:DIR/scheduler.db --to "
    "etcd:URL,...\n"
    "Move a pool from the embedded store of a stopped scheduler to etcd.\n"
    "\n"
    "  --from sqlite:PATH    state file; the key beside it moves as well\n"
    "  --to etcd:URL,...     members of an etcd that holds no pool under the prefix\n"
    "  --etcd-prefix PREFIX  of all keys (/gpupool/)\n"
    "  --etcd-ca FILE, --etcd-cert FILE, --etcd-key FILE\n"
    "                        for https: whom to trust, and who this is\n";

enum { OPT_FROM = 1, OPT_TO, OPT_PREFIX, OPT_CA, OPT_CERT, OPT_KEY, OPT_HELP };

static const struct option OPTIONS[] = {
    {"from", required_argument, NULL, OPT_FROM},
    {"to", required_argument, NULL, OPT_TO},
    {"etcd-prefix", required_argument, NULL, OPT_PREFIX},
    {"etcd-ca", required_argument, NULL, OPT_CA},
    {"etcd-cert", required_argument, NULL, OPT_CERT},
    {"etcd-key", required_argument, NULL, OPT_KEY},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

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

int
sched_migrate(int argc, char **argv)
{
    struct etcd_config config = {.prefix = "/gpupool/"};
    const char *from = NULL, *to = NULL;
    struct gp_err err = {0};
    int opt, r;

    while ((opt = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        switch (opt) {
        case OPT_FROM:
            from = optarg;
            break;
        case OPT_TO:
            to = optarg;
            break;
        case OPT_PREFIX:
            config.prefix = optarg;
            break;
        case OPT_CA:
            config.ca = optarg;
            break;
        case OPT_CERT:
            config.cert = optarg;
            break;
        case OPT_KEY:
            config.key = optarg;
            break;
        default:
            fputs(HELP, opt == OPT_HELP ? stdout : stderr);
            return opt != OPT_HELP;
        }
    }
    if (!from || strncmp(from, "sqlite:", 7) || !to || strncmp(to, "etcd:", 5)) {
        fputs(HELP, stderr);
        return 1;
    }
    config.urls = to + 5;
    r = migrate(from + 7, &config, &err);
    if (r < 0)
        fprintf(stderr, "gpupool-scheduler: migrate: %s\n", gp_err_msg(&err, r));
    return r < 0;
}
