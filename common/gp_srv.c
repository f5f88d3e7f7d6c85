/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_srv.h"

#include "gp_err.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/random.h>

#define DNS_HEADER 12
#define DNS_QUESTION_REST 4 /* type and class behind the name */
#define DNS_RECORD_REST 10  /* type, class, time to live, length */
#define DNS_SRV_REST 6      /* priority, weight, port */
#define DNS_CLASS_IN 1
#define DNS_TYPE_SRV 33
/* What sixteen records take at most; a longer answer is cut off. */
#define ANSWER_MAX 8192
/* A name has at most 127 labels, each of which a pointer may lead to. */
#define JUMPS_MAX 127

/* ------------------------------------------------------------------ message -- */

struct reader {
    const uint8_t *bytes;
    size_t size, at;
    bool bad; /* it broke off: what is read from then on is 0 */
};

static unsigned
read_u16(struct reader *r)
{
    if (r->bad || r->size - r->at < 2) {
        r->bad = true;
        return 0;
    }
    r->at += 2;
    return (unsigned)r->bytes[r->at - 2] << 8 | r->bytes[r->at - 1];
}

static void
skip(struct reader *r, size_t n)
{
    if (r->bad || r->size - r->at < n)
        r->bad = true;
    else
        r->at += n;
}

/* Letters, digits, '-' and '_', as in names of hosts. */
static bool
label_ok(const uint8_t *label, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum(label[i]) && label[i] != '-' && label[i] != '_')
            return false;
    return true;
}

/* The name at @at, by its labels and pointers; returns where it ends there, or 0: it is
 * none.  *ret_ok: @ret is the name of a host; @ret may be NULL. */
static size_t
read_name(const struct reader *r, size_t at, char ret[GP_SRV_NAME_MAX], bool *ret_ok)
{
    size_t len = 0, end = 0;

    *ret_ok = ret != NULL;
    for (unsigned jumps = 0; at < r->size && jumps <= JUMPS_MAX;) {
        size_t n = r->bytes[at];

        if (n >= 0xc0) { /* a pointer to the rest */
            if (r->size - at < 2)
                return 0;
            end = end ? end : at + 2;
            at = (n & 0x3f) << 8 | r->bytes[at + 1];
            jumps++;
            continue;
        }
        at++;
        if (!n) {
            *ret_ok = *ret_ok && len;
            if (*ret_ok)
                ret[len - 1] = '\0';
            return end ? end : at;
        }
        if (n > 63 || r->size - at < n || len + n + 1 > GP_SRV_NAME_MAX)
            return 0;
        if (ret) {
            *ret_ok = *ret_ok && label_ok(r->bytes + at, n);
            memcpy(ret + len, r->bytes + at, n);
            ret[len + n] = '.';
        }
        len += n + 1;
        at += n;
    }
    return 0;
}

static void
skip_name(struct reader *r)
{
    bool ok;
    size_t end = r->bad ? 0 : read_name(r, r->at, NULL, &ok);

    r->bad = !end;
    r->at = end;
}

/* One record.  True: @target is one of the service's. */
static bool
read_record(struct reader *r, struct gp_srv_target *target)
{
    unsigned type, class, length;
    struct reader data;
    bool ok = false;

    skip_name(r);
    type = read_u16(r);
    class = read_u16(r);
    skip(r, 4);
    length = read_u16(r);
    data = *r;
    skip(r, length);
    if (r->bad || type != DNS_TYPE_SRV || class != DNS_CLASS_IN ||
        length <= DNS_SRV_REST)
        return false;
    target->priority = (uint16_t)read_u16(&data);
    target->weight = (uint16_t)read_u16(&data);
    target->port = (uint16_t)read_u16(&data);
    return read_name(&data, data.at, target->host, &ok) && ok && target->port;
}

int
gp_srv_parse(const uint8_t *message, size_t size,
             struct gp_srv_target targets[GP_SRV_TARGETS_MAX])
{
    struct reader r = {.bytes = message, .size = size};
    unsigned questions, answers;
    int n = 0;

    skip(&r, 4);
    questions = read_u16(&r);
    answers = read_u16(&r);
    skip(&r, 4);
    for (; questions && !r.bad; questions--) {
        skip_name(&r);
        skip(&r, DNS_QUESTION_REST);
    }
    for (; answers && !r.bad && n < GP_SRV_TARGETS_MAX; answers--)
        n += read_record(&r, &targets[n]);
    return r.bad ? -EBADMSG : n;
}

/* -------------------------------------------------------------------- order -- */

/* One of the first @n, each as often as its weight says; one without weight rarely. */
static unsigned
choose(const struct gp_srv_target *targets, unsigned n, uint32_t random)
{
    uint64_t sum = 0, at;

    for (unsigned i = 0; i < n; i++)
        sum += targets[i].weight;
    at = random % (sum + 1);
    for (unsigned i = 0; i < n; i++) {
        if (at <= targets[i].weight)
            return i;
        at -= targets[i].weight;
    }
    return n - 1;
}

/* Those without weight come first, as RFC 2782 wants it before a choice. */
static int
by_priority(const void *a, const void *b)
{
    const struct gp_srv_target *x = a, *y = b;

    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    return (x->weight > 0) - (y->weight > 0);
}

void
gp_srv_order(struct gp_srv_target *targets, unsigned n, uint32_t (*random)(void))
{
    if (n)
        qsort(targets, n, sizeof(targets[0]), by_priority);
    for (unsigned i = 0; i < n; i++) {
        struct gp_srv_target chosen;
        unsigned same = 1, k;

        while (i + same < n && targets[i + same].priority == targets[i].priority)
            same++;
        k = i + choose(targets + i, same, random());
        chosen = targets[k];
        memmove(&targets[i + 1], &targets[i], (k - i) * sizeof(chosen));
        targets[i] = chosen;
    }
}

/* ------------------------------------------------------------------- lookup -- */

typedef int query_fn(const char *name, int class, int type, unsigned char *answer,
                     int size);

/* C libraries before 2.34 have it in a library of its own and under another name.  It
 * is found at run time, so that whoever asks for no SRV record needs neither. */
static query_fn *
find_query(void)
{
    void *library, *found = dlsym(RTLD_DEFAULT, "res_query");

    if (found)
        return (query_fn *)found;
    library = dlopen("libresolv.so.2", RTLD_NOW);
    if (!library)
        return NULL;
    found = dlsym(library, "__res_query");
    return (query_fn *)(found ? found : dlsym(library, "res_query"));
}

static uint32_t
random_u32(void)
{
    uint32_t value = 0;

    if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
        return 0;
    return value;
}

int
gp_srv_lookup(const char *name, struct gp_srv_target targets[GP_SRV_TARGETS_MAX],
              struct gp_err *err)
{
    query_fn *query = find_query();
    CLEANUP_FREE uint8_t *answer = malloc(ANSWER_MAX);
    int n;

    if (!answer)
        return -ENOMEM;
    if (!query)
        return gp_err_set(err, -ENOSYS, "%s: this C library asks for no SRV records",
                          name);
    n = query(name, DNS_CLASS_IN, DNS_TYPE_SRV, answer, ANSWER_MAX);
    if (n < 0)
        return gp_err_set(err, -EHOSTUNREACH, "%s: %s", name,
                          h_errno == TRY_AGAIN ? "DNS does not answer"
                                               : "there is no such SRV record in DNS");
    n = gp_srv_parse(answer, gp_min((size_t)n, (size_t)ANSWER_MAX), targets);
    if (n <= 0)
        return gp_err_set(err, -EHOSTUNREACH, "%s: %s", name,
                          n < 0 ? "the answer of DNS cannot be read"
                                : "DNS names no host for it");
    gp_srv_order(targets, (unsigned)n, random_u32);
    return n;
}
