/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool-scheduler migrate --from sqlite:PATH --to etcd:URLS [--key-file FILE] */
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "sched_replica.h"
#include "store.h"
#include "store_etcd.h"
#include "store_sqlite.h"
#include "ticket_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct request {
    const char *from, *to, *key_file;
    struct etcd_config etcd;
};

/* The key that the pool's servers know, as its file beside the state has it; NULL: it
 * is kept elsewhere, in a key file that is good, and stays there. */
static int
read_key(const struct request *request, char **ret_key, struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    const char *db = request->from, *slash = strrchr(db, '/');
    CLEANUP_FREE char *path =
        gp_str_printf("%.*sticket-key.pem", slash ? (int)(slash - db + 1) : 0, db);
    size_t len;
    int r;

    if (request->key_file) {
        r = ticket_key_open(request->key_file, &key, err);
        return r < 0 ? gp_err_wrap(err, r, "--key-file") : 0;
    }
    if (!path)
        return -ENOMEM;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return gp_err_set(err, -ENOENT,
                          "%s is not there: when the scheduler ran with --key-file, "
                          "give that option here as well",
                          path);
    return gp_file_read(path, 4096, ret_key, &len, err);
}

/* Nothing is written before all that is to be moved can be read.  The pool's tickets go
 * on being signed with the key that its servers know. */
static int
migrate(const struct request *request, struct gp_err *err)
{
    CLEANUP_FREE char *key = NULL;
    struct store *from = NULL, *to = NULL;
    size_t n = 0;
    int r = access(request->from, R_OK) < 0
                ? gp_err_set(err, -errno, "%s: %s", request->from, strerror(errno))
                : store_sqlite_open(request->from, &from, err);

    if (!r)
        r = read_key(request, &key, err);
    if (!r)
        r = store_etcd_open(&request->etcd, &to, err);
    if (!r)
        r = store_etcd_import(to, from, key, &n, err);
    if (!r)
        printf("%zu records moved\n", n);
    if (!r && !key)
        printf("The key stays in %s: start every scheduler with --key-file.\n",
               request->key_file);
    if (key)
        explicit_bzero(key, strlen(key));
    if (from)
        from->ops->close(from);
    if (to)
        to->ops->close(to);
    return r;
}

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
         .help =
             "state file; the key beside it moves as well, unless --key-file is given",
         .set = set_store,
         .words = from,
         .offset = offsetof(struct request, from)},
        {.name = "to",
         .value = "etcd:URL,...",
         .help = "members of an etcd that holds no pool under the prefix",
         .set = set_store,
         .words = to,
         .offset = offsetof(struct request, to)},
        {.name = "key-file",
         .value = "FILE",
         .help =
             "the scheduler's key, when it ran with this option: it stays there, and "
             "all schedulers need the option from now on",
         .set = gp_option_text,
         .offset = offsetof(struct request, key_file)},
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
    int r = parse(&request, argc, argv, &err), status = 2; /* of wrong options */

    if (!r) {
        status = 1;
        r = migrate(&request, &err);
    }
    if (r < 0)
        fprintf(stderr, "gpupool-scheduler: migrate: %s\n", gp_err_msg(&err, r));
    return r < 0 ? status : 0;
}
