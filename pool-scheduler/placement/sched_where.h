/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cards a request accepts, by what they are: labels of their server, model,
 * compute capability, speed, and whether its programs reach the server.
 *
 * A plain value without pointers; bytes that are not used are zero, so that two of them
 * can be compared with memcmp().  No allocation, no thread.
 */
#ifndef SCHED_WHERE_H
#define SCHED_WHERE_H

#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct sched_card_facts;

#define SCHED_LABELS_MAX 256 /* of a server, or of a request: text, with the NUL */
#define SCHED_MODEL_MAX 64

/* What a request's programs go over, as CtlOver. */
enum sched_over { SCHED_OVER_ANY, SCHED_OVER_TCP, SCHED_OVER_RDMA, SCHED_OVER_SHM };

/* How a server is reached. */
#define SCHED_HOST_SIZE 16
struct sched_reach {
    uint8_t zone; /* sched_rules_zone() */
    bool rdma;    /* it offers an RDMA port */
    bool has_host;
    uint8_t host[SCHED_HOST_SIZE]; /* the kernel that it runs under */
};

struct sched_where {
    uint32_t over;                 /* enum sched_over */
    uint64_t unreached;            /* zones, a bit each */
    uint8_t host[SCHED_HOST_SIZE]; /* SCHED_OVER_SHM: where its programs run */
    uint32_t cc_min;               /* 100 * major + minor; 0: any */
    uint32_t tflops;             /* of the slice: core follows from it; 0: core says */
    char model[SCHED_MODEL_MAX]; /* pattern of the card's name; "": any */
    char labels[SCHED_LABELS_MAX]; /* "rack=r1,zone!=b": all must hold; "": any */
    /* Likewise, for sched_place() alone: cards of servers that have them come first,
     * and the first label counts most.  With @labels no longer than one of the two. */
    char prefer[SCHED_LABELS_MAX];
};

/* Add "NAME=VALUE" or "NAME!=VALUE".  -EINVAL with words. */
int sched_where_add_label(struct sched_where *where, const char *label,
                          struct gp_err *err);
int sched_where_add_prefer(struct sched_where *where, const char *label,
                           struct gp_err *err);
/* In @ret the labels are those of @where and the first @len bytes of what it prefers;
 * returns @len without the last label.  0: there is nothing to prefer. */
size_t sched_where_preferred(const struct sched_where *where, size_t len,
                             struct sched_where *ret);
/* What is preferred and missing among @labels, up to a comma, or NULL. */
const char *sched_where_missed(const struct sched_where *where, const char *labels);
static inline bool
sched_where_any(const struct sched_where *where)
{
    return !where ||
           (!where->cc_min && !where->tflops && !*where->model && !*where->labels &&
            !*where->prefer && where->over <= SCHED_OVER_TCP && !where->unreached);
}
/* Do the labels of a server, "a=b,c=d", satisfy it? */
bool sched_where_labels(const struct sched_where *where, const char *labels);
/* Do its programs reach such a server?  @host: also whether it is on their host, if it
 * has to be; groups of cards are of servers on many. */
bool sched_where_reaches(const struct sched_where *where,
                         const struct sched_reach *reach, bool host);
/* Why not, in words. */
const char *sched_where_reach_words(const struct sched_where *where);
bool sched_where_card(const struct sched_where *where,
                      const struct sched_card_facts *facts);
/* What is not satisfied, in words; false: nothing. */
bool sched_where_words(const struct sched_where *where, const char *labels,
                       const struct sched_card_facts *facts, char *words, size_t size);

#endif
