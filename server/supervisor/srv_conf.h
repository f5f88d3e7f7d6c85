/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpupool-server was told to do: flags, environment, or a file of
 * `flag = value` lines (gp_option.h).
 *
 * Filled by main before the loop starts; after SIGHUP, in the loop, the options that
 * may change meanwhile are.  Read only for everybody else.
 */
#ifndef SRV_CONF_H
#define SRV_CONF_H

#include "gp_base.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct gp_option_changes;

#define SRV_DEFAULT_PORT 7481
#define SRV_METRICS_PORT 9481

/* Long enough for an upgrade of packages and a slow driver's start, short enough that a
 * server which was killed for good does not keep its cards busy. */
#define SRV_ADOPT_WINDOW_S 60

/* Stacks, arenas and the driver's own tables: with less, workers do not start. */
#define SRV_WORKER_MEMORY_MIN (256u << 20)

/* What one owner may have unless the options say: half of --max-attachments, so that
 * none alone keeps all others out, and at least two full sessions of 256 processes. The
 * same for the processes of a host, because clients that share a token choose the
 * owner's name themselves. */
#define SRV_SHARE_ATTACHMENTS 512u

struct srv_conf {
    char listen[288];
    char local[128];     /* "unix:/path": for clients on this host, or "" */
    char advertise[288]; /* host or host:port given to clients; "" = own host name */
    char driver[PATH_MAX];
    char name[64];
    char scheduler[288]; /* "" = none: tickets are checked with key_file alone */
    char token_file[PATH_MAX];
    char key_file[PATH_MAX];       /* the scheduler's public key; "" = as pinned */
    char audit_log[PATH_MAX];      /* "" = none */
    char state_dir[PATH_MAX - 64]; /* where the key is pinned; "" = in memory only */
    char worker[PATH_MAX];         /* "" = gpupool-worker beside this program */
    char worker_user[64];
    char worker_uids[64];    /* "auto", "off" or "FIRST-LAST": srv_jail.h */
    char worker_memory[32];  /* limit of a worker's host memory, or "off" */
    char worker_sandbox[16]; /* "on" or "log" */
    char worker_cgroup[8];   /* "auto", "on" or "off" */
    char worker_shared[32];  /* host memory of a worker beside worker_memory */
    uint64_t shared_bytes;   /* as a number */
    char worker_read[1024];  /* further paths that workers may read */
    uint64_t worker_bytes;   /* worker_memory as a number; 0: off */
    char tls[16];            /* "require", "prefer", "off" */
    char metrics_listen[288];
    char ready_file[PATH_MAX]; /* gets "host:port\n" once clients can attach */
    char image_cache[32];      /* size, "0" or "off": none */
    char memory[32];           /* of a software card; "" = the driver's default */
    char rdma[256];            /* "auto", "off", or addresses with commas between */
    char gpudirect[16];        /* "auto", "dmabuf", "peermem", "off" */
    char pageable[16];         /* "refuse", "allow" */
    char memory_scaling[256];  /* "0.5" or "1,0.5,...": see srv_conf_scaled() */
    uint32_t cards;            /* software cards; 0 = the driver's default */
    uint32_t max_attachments;  /* workers of the whole server */
    uint32_t owner_attachments, address_attachments; /* of those, at most; 0: default */
    uint32_t max_sessions;
    uint32_t rate_connections, rate_attaches, rate_refusals; /* srv_rates.h */
    uint32_t link_timeout_s; /* without an acknowledgement of the client's host */
    uint32_t resume_s;       /* how long a client may be away */
    uint32_t check_seconds;  /* between checks of a card that does not work */
    uint32_t adopt_window_s; /* how long workers wait for a successor; 0: not at all */
    bool allow_unbound;      /* tickets without a client's key are taken, and logged */
    /* Seconds that work may go on while another session waits for the card. */
    uint32_t work_limit_s, work_limit_offline_s;
};

/* Read the command line.  0: go on.  1: --help or --version was answered.
 * -EINVAL with words otherwise. */
int srv_conf_parse(struct srv_conf *conf, int argc, char **argv, struct gp_err *err);

/* -EINVAL with words: nothing says whose tickets are good. */
int srv_conf_check_key(const struct srv_conf *conf, struct gp_err *err);

/* Read command line, environment and file once more: options that need no restart are
 * taken over to @conf, which stays as it is on failure. */
int srv_conf_reread(struct srv_conf *conf, int argc, char **argv,
                    struct gp_option_changes *ret, struct gp_err *err);

/* The numbers of --memory-scaling. */
uint32_t srv_conf_n_scalings(const struct srv_conf *conf);
/* How much of the @memory of card @index sessions may have: the part that
 * --memory-scaling says, the last number of its list standing for all further cards. */
uint64_t srv_conf_scaled(const struct srv_conf *conf, uint32_t index, uint64_t memory);

/* How many workers one owner, or one address, may have where its option is @option
 * (conf->owner_attachments, conf->address_attachments). */
static inline uint32_t
srv_conf_share(const struct srv_conf *conf, uint32_t option)
{
    return option ? option : gp_max(conf->max_attachments / 2, SRV_SHARE_ATTACHMENTS);
}

#endif
